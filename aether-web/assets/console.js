// What script adds to the console; every page works without it.
"use strict";
(function () {
  var root = document.documentElement;

  // A live page holds a connection only while it is seen: a browser opens six to one place, for all of its tabs. It comes
  // back with the last id that it got.
  var last = {};
  htmx.createEventSource = function (url) {
    var key = url.split("?")[0], listeners = [], source = null;
    function open() {
      var seen = last[key];
      source = new EventSource(seen ? url + (url.indexOf("?") < 0 ? "?" : "&") + "last=" + encodeURIComponent(seen) : url);
      ["entry", "changed", "list"].forEach(function (name) {
        source.addEventListener(name, function (event) {
          if (event.lastEventId) last[key] = event.lastEventId;
          if (name !== "entry") count();
        });
      });
      listeners.forEach(function (pair) { source.addEventListener(pair[0], pair[1]); });
      source.onopen = function (event) { root.dataset.live = "on"; if (live.onopen) live.onopen(event); };
      source.onerror = function (event) {
        root.dataset.live = "off";
        // Cut off for good: another one is made for it.
        if (source.readyState === EventSource.CLOSED) live.close();
        if (live.onerror) live.onerror(event);
      };
    }
    function turn() {
      if (document.hidden && source) { source.close(); source = null; root.dataset.live = "off"; }
      if (!document.hidden && !source) open();
    }
    var live = {
      addEventListener: function (name, listener) {
        listeners.push([name, listener]);
        if (source) source.addEventListener(name, listener);
      },
      removeEventListener: function (name, listener) {
        listeners = listeners.filter(function (pair) { return pair[0] !== name || pair[1] !== listener; });
        if (source) source.removeEventListener(name, listener);
      },
      close: function () {
        document.removeEventListener("visibilitychange", turn);
        if (source) source.close();
        source = null;
      },
      get readyState() { return source ? source.readyState : EventSource.CLOSED; }
    };
    document.addEventListener("visibilitychange", turn);
    turn();
    return live;
  };

  // What somebody is filling in is not replaced under their hands: it is brought up to date when they have left it, and
  // the page says so until then.
  var skipped = {};
  document.addEventListener("input", function (event) {
    var form = event.target.closest("form");
    if (form && form.closest("#panel, #list")) form.dataset.dirty = "yes";
  });
  function busy(target) {
    return target && (target.querySelector("form[data-dirty]") ||
      (target.contains(document.activeElement) && document.activeElement.closest("form, details")));
  }
  function mark() {
    if (Object.keys(skipped).length) root.dataset.stale = "yes";
    else delete root.dataset.stale;
  }
  function skip(place, again) { skipped[place] = again; mark(); }
  function done(place) { delete skipped[place]; mark(); }
  function catchUp() {
    Object.keys(skipped).forEach(function (place) {
      if (busy(document.querySelector(place))) return;
      var again = skipped[place];
      done(place);
      again();
    });
  }
  document.addEventListener("focusout", function () { setTimeout(catchUp, 0); });
  document.addEventListener("reset", function (event) {
    delete event.target.dataset.dirty;
    setTimeout(catchUp, 0);
  });
  document.addEventListener("htmx:beforeRequest", function (event) {
    var place = event.detail.elt.dataset.gentle;
    if (place === undefined || !busy(document.querySelector(place))) return;
    event.preventDefault();
    skip(place, function () { htmx.trigger(document.querySelector(place), "again"); });
  });
  document.addEventListener("htmx:sseBeforeMessage", function (event) {
    if (event.target.id !== "list") return;
    if (!busy(event.target)) { done("#list"); return; }
    event.preventDefault();
    skip("#list", function () {
      htmx.ajax("GET", location.pathname + location.search, { target: "#list", select: "#list", swap: "outerHTML" });
    });
  });

  // How many decisions wait.
  function count() {
    var badge = document.querySelector("[data-badge]");
    if (!badge || document.hidden) return;
    fetch(badge.dataset.badge, { credentials: "same-origin", redirect: "error" }).then(function (answer) {
      return answer.ok ? answer.text() : Promise.reject();
    }).then(function (text) {
      badge.textContent = text.trim();
      badge.hidden = !text.trim();
      badge.setAttribute("aria-label", text.trim() + " open");
    }).catch(function () { /* The next look asks again. */ });
  }
  setInterval(count, 5000);
  document.addEventListener("visibilitychange", count);

  // How long ago something was, by the clock of the server.
  var ahead = Date.parse(root.dataset.now) - Date.now();
  function coarse(millis) {
    var minutes = Math.floor(millis / 60000), hours = Math.floor(millis / 3600000);
    if (millis < 60000) return Math.floor(millis / 1000) + " s";
    if (millis < 3600000) return minutes + " min";
    return millis < 172800000 ? hours + " h" : Math.floor(hours / 24) + " d";
  }
  setInterval(function () {
    document.querySelectorAll("time[data-relative]").forEach(function (time) {
      var past = Date.now() + ahead - Date.parse(time.dateTime);
      if (isNaN(past)) return;
      time.textContent = past < 0 ? "in " + coarse(-past) : past < 1000 ? "just now" : coarse(past) + " ago";
    });
  }, 5000);

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
    if (row.dataset.gentle && event.detail.successful) done(row.dataset.gentle);
    if (!row.matches("[data-row]")) return;
    document.querySelectorAll("[data-row][aria-current]").forEach(function (other) { other.removeAttribute("aria-current"); });
    row.setAttribute("aria-current", "true");
    // On a narrow page the panel stands below the timeline.
    var panel = document.getElementById("panel");
    if (panel && panel.getBoundingClientRect().top > window.innerHeight * 0.8) panel.scrollIntoView();
  });
})();
