//! The agents among which a conversation may be handed over.
//!
//! Promise: every agent has a name of its own, every name that is handed over to is that of an agent, and no agent has two
//! tools of one name; else nothing is asked.

use std::collections::BTreeMap;
use std::fmt::Display;

use aether_core::failure::{Failure, StepError};

use super::hand_off::HandOffTool;
use super::spec::AgentSpec;
use super::toolbox::AgentTool;

/// The agents, and which of them is at work.
pub(super) struct Team {
    /// The one with which the conversation began, and the others. Never empty.
    agents: Vec<AgentSpec>,
    at: usize,
}

impl Team {
    /// An agent and all to whom may be handed over.
    ///
    /// # Errors
    /// Permanent where it is not clear to whom, or an agent has two tools of one name.
    pub(super) fn of(first: AgentSpec) -> Result<Self, StepError<Failure>> {
        let (mut agents, mut found) = (Vec::new(), vec![first]);
        while let Some(mut agent) = found.pop() {
            found.append(&mut agent.described);
            agents.push(agent);
        }
        let mut team = Self { agents, at: 0 };
        team.check_agents()?;
        team.add_hand_offs();
        // The first one is checked when it has the tools of its toolboxes.
        team.agents.iter().skip(1).try_for_each(check_names)?;
        Ok(team)
    }

    /// The agent with which the conversation began.
    pub(super) fn first(&self) -> &AgentSpec {
        &self.agents[0]
    }

    pub(super) fn at_work(&self) -> &AgentSpec {
        &self.agents[self.at]
    }

    pub(super) fn at_work_mut(&mut self) -> &mut AgentSpec {
        &mut self.agents[self.at]
    }

    /// Sets the agent of this name to work.
    pub(super) fn hand_over(&mut self, name: &str) {
        if let Some(at) = self.agents.iter().position(|agent| agent.name == name) {
            self.at = at;
        }
    }

    fn check_agents(&self) -> Result<(), StepError<Failure>> {
        for (number, agent) in self.agents.iter().enumerate() {
            let name = &agent.name;
            if self.agents[..number].iter().any(|other| other.name == *name) {
                return Err(refusal(format_args!(
                    "two agents are named `{name}`: describe an agent once (`hand_off`), and elsewhere hand over to it \
                     by its name (`hand_off_named`)"
                )));
            }
            for to in &agent.hand_offs {
                if to == name {
                    return Err(refusal(format_args!("agent `{name}` hands over to itself")));
                }
                if self.agents.iter().all(|other| other.name != *to) {
                    return Err(refusal(format_args!(
                        "agent `{name}` hands over to `{to}`, and there is no such agent: describe it with `hand_off`"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Gives every agent the tools by which it hands over.
    fn add_hand_offs(&mut self) {
        let described = |agent: &AgentSpec| (agent.name.clone(), agent.description.clone());
        let known: BTreeMap<_, _> = self.agents.iter().map(described).collect();
        for agent in &mut self.agents {
            let tool = |to: &str| HandOffTool::new(to, known.get(to).map_or("", String::as_str));
            agent.tools.extend(agent.hand_offs.iter().map(|to| AgentTool::HandOff(tool(to))));
        }
    }
}

/// Checks that a model can tell the tools of `agent` apart.
pub(super) fn check_names(agent: &AgentSpec) -> Result<(), StepError<Failure>> {
    for (number, tool) in agent.tools.iter().enumerate() {
        if let Some(other) = agent.tools[..number].iter().find(|other| other.name() == tool.name()) {
            let (agent, name) = (&agent.name, tool.name());
            let (one, other) = (other.source(), tool.source());
            return Err(refusal(format_args!(
                "agent `{agent}` has two tools named `{name}`, from {one} and from {other}: give one of these \
                 another name, or leave its tool out of the toolbox"
            )));
        }
    }
    Ok(())
}

/// A permanent error that says `reason`.
pub(super) fn refusal(reason: impl Display) -> StepError<Failure> {
    StepError::App(Failure::permanent(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(spec: AgentSpec) -> String {
        Team::of(spec).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn agents_are_found_at_any_depth_and_in_circles() {
        let refunds = AgentSpec::new("refunds").hand_off_named("support").hand_off_named("billing");
        let billing = AgentSpec::new("billing").description("About money.").hand_off(refunds);
        let support = AgentSpec::new("support").hand_off(billing).hand_off(AgentSpec::new("the shop"));
        let mut team = Team::of(support).unwrap();
        let tools = |team: &Team| {
            let tools = team.at_work().tools.iter();
            tools.map(|tool| tool.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(tools(&team), ["hand_off_to_billing", "hand_off_to_the_shop"]);
        assert!(team.first().tools[0].spec().description.ends_with("in your place. About money."));
        team.hand_over("refunds");
        assert_eq!(tools(&team), ["hand_off_to_support", "hand_off_to_billing"]);
        team.hand_over("support");
        assert_eq!(team.at_work().name, "support");
    }

    #[test]
    fn names_that_are_not_clear_are_refused_and_the_error_says_so() {
        let spec = AgentSpec::new;
        let twice = refused(spec("a").hand_off(spec("b").hand_off(spec("c"))).hand_off(spec("c")));
        assert!(twice.contains("two agents are named `c`") && twice.contains("hand_off_named"), "{twice}");
        let unknown = refused(spec("a").hand_off(spec("b").hand_off_named("d")));
        assert!(unknown.contains("agent `b` hands over to `d`, and there is no such agent"), "{unknown}");
        let itself = refused(spec("a").hand_off_named("a"));
        assert!(itself.contains("agent `a` hands over to itself"), "{itself}");
        let alike = refused(spec("a").hand_off(spec("b").hand_off(spec("x y")).hand_off(spec("x.y"))));
        assert!(alike.contains("agent `b` has two tools named `hand_off_to_x_y`"), "{alike}");
        assert!(alike.contains("the hand-off to `x y` and from the hand-off to `x.y`"), "{alike}");
    }
}
