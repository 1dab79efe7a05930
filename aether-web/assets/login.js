// The token of the address is shown to nobody: it leaves the history, and the session begins.
"use strict";
(function () {
  history.replaceState(null, "", location.pathname);
  document.querySelector("form[data-login]").requestSubmit();
})();
