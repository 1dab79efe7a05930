"""A model behind LiteLLM that notes 1, 2 and 3, one call at a time, and then is done.

It writes a line to the file `asked` of its folder for each question, and answers the n-th one when there is a file
`answer-<n>`.
"""

import asyncio
import os

import litellm
from litellm import CustomLLM

FOLDER = os.environ["AETHER_LITELLM"]
SECONDS = 60
NOTES = 3


async def told_to_answer(number):
    while not os.path.exists(os.path.join(FOLDER, f"answer-{number}")):
        await asyncio.sleep(0.02)


class Scripted(CustomLLM):
    async def acompletion(self, *args, **kwargs):
        messages = kwargs["messages"]
        noted = sum(message["role"] == "tool" for message in messages)
        with open(os.path.join(FOLDER, "asked"), "a+") as file:
            file.write(f"{noted}\n")
            file.seek(0)
            number = len(file.readlines())
        await asyncio.wait_for(told_to_answer(number), SECONDS)
        said = {"mock_response": f"{noted} numbers are noted."}
        if noted < NOTES:
            function = {"name": "note", "arguments": f'{{"number":{noted + 1}}}'}
            said["mock_tool_calls"] = [{"id": f"call_{noted}", "type": "function", "function": function}]
        return litellm.completion(model="openai/mock", api_key="none", messages=messages, **said)


handler = Scripted()
