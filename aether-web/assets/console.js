// What script adds to the console; every page works without it.
"use strict";
(function () {
  var createdSources = {};
  // A live page that was cut off for good comes back with the last position that it got.
  htmx.createEventSource = function (url) {
    var key = url.split("?")[0], seen = createdSources[key];
    var source = new EventSource(seen ? url + (url.indexOf("?") < 0 ? "?" : "&") + "last=" + encodeURIComponent(seen) : url);
    ["entry", "changed", "list"].forEach(function (name) {
      source.addEventListener(name, function (event) {
        if (event.lastEventId) createdSources[key] = event.lastEventId;
      });
    });
    source.addEventListener("open", function () { document.documentElement.dataset.live = "on"; });
    source.addEventListener("error", function () { document.documentElement.dataset.live = "off"; });
    return source;
  };

  // What somebody is filling in is not replaced under their hands.
  document.addEventListener("input", function (event) {
    var form = event.target.closest("form");
    if (form && form.closest("#panel, #list")) form.dataset.dirty = "yes";
  });
  function busy(target) {
    return target && (target.querySelector("form[data-dirty]") ||
      (target.contains(document.activeElement) && document.activeElement.closest("form, details")));
  }
  document.addEventListener("htmx:beforeRequest", function (event) {
    var element = event.detail.elt;
    if (element.dataset.gentle !== undefined && busy(document.querySelector(element.dataset.gentle))) event.preventDefault();
  });
  document.addEventListener("htmx:sseBeforeMessage", function (event) {
    if (event.target.id === "list" && busy(event.target)) event.preventDefault();
  });

  // Rows of the timeline answer to the arrow keys; `/` goes to the search.
  document.addEventListener("keydown", function (event) {
    var at = document.activeElement;
    if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName)) {
      var search = document.querySelector("input[type=search]");
      if (search) { search.focus(); search.select(); event.preventDefault(); }
      return;
    }
    if (!at.matches("[data-row]") || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
    var rows = Array.prototype.slice.call(document.querySelectorAll("[data-row]"));
    var next = rows[rows.indexOf(at) + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) { next.focus(); event.preventDefault(); }
  });

  // The row that was opened is the one that is marked.
  document.addEventListener("htmx:afterRequest", function (event) {
    var row = event.detail.elt;
    if (!row.matches("[data-row]")) return;
    document.querySelectorAll("[data-row][aria-current]").forEach(function (other) { other.removeAttribute("aria-current"); });
    row.setAttribute("aria-current", "true");
    // On a narrow page the panel stands below the timeline.
    var panel = document.getElementById("panel");
    if (panel && panel.getBoundingClientRect().top > window.innerHeight * 0.8) panel.scrollIntoView();
  });
})();
