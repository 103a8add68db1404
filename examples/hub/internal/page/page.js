// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Keeps the page live: a stream of events has the changed elements, rendered and escaped by the server.
"use strict";

(() => {
  const silence = 45_000; // The server sends an event at least every 15 seconds.
  const pause = 3_000; // before it connects again
  const quiet = 5_000; // between two announcements

  const find = (id) => document.getElementById(id);
  const filter = find("filter");
  let version = document.documentElement.dataset.version;
  let stream, watchdog, retry, news = 0, reading;

  // Filtering

  const words = () => filter.value.toLowerCase().split(/\s+/).filter(Boolean);

  const match = (row, wanted) => {
    const text = wanted.length ? row.textContent.toLowerCase() : "";
    row.hidden = !wanted.every((word) => text.includes(word));
  };

  const tally = () => {
    const all = document.querySelectorAll("tbody tr").length;
    const hidden = document.querySelectorAll("tbody tr[hidden]").length;
    find("matches").textContent = `${all - hidden} of ${all} rows`;
  };

  const apply = () => {
    const wanted = words();
    for (const row of document.querySelectorAll("tbody tr")) match(row, wanted);
    tally();
    const address = new URL(location.href);
    if (filter.value) address.searchParams.set("q", filter.value);
    else address.searchParams.delete("q");
    history.replaceState(null, "", address);
  };

  // Changes

  const parse = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  };

  // The rows of a table are in the order of their IDs.
  const insert = (row) => {
    const body = find(row.id.slice(0, row.id.indexOf("/")));
    let low = 0, high = body.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (body.rows[middle].id < row.id) low = middle + 1;
      else high = middle;
    }
    body.insertBefore(row, body.rows[low] ?? null);
  };

  const set = (fresh, wanted) => {
    const old = find(fresh.id);
    if (fresh.tagName === "TR") match(fresh, wanted);
    if (!old) return insert(fresh);
    // Keeps opened details and the focus.
    const focused = old.contains(document.activeElement);
    if (old.querySelector("details[open]")) fresh.querySelector("details")?.setAttribute("open", "");
    old.replaceWith(fresh);
    if (focused) fresh.querySelector("summary")?.focus();
  };

  const change = (event) => {
    const { reset, set: html = [], gone = [] } = JSON.parse(event.data);
    version = event.lastEventId;
    const fresh = html.map(parse);
    if (reset) { // The event has all rows: others are gone.
      const kept = new Set(fresh.map((element) => element.id));
      for (const row of document.querySelectorAll("tbody tr")) if (!kept.has(row.id)) row.remove();
    }
    for (const id of gone) find(id)?.remove();
    const wanted = words();
    for (const element of fresh) set(element, wanted);
    tally();
    announce(fresh.length + gone.length);
  };

  // Screen readers announce the number of changes at intervals, not each change.
  const announce = (count) => {
    news += count;
    reading ??= setTimeout(() => {
      find("news").textContent = `${news} ${news === 1 ? "change" : "changes"}, last at ${new Date().toLocaleTimeString()}`;
      news = 0;
      reading = undefined;
    }, quiet);
  };

  // The connection

  const show = (state, text) => {
    const line = find("connection");
    if (line.dataset.state === state) return;
    line.dataset.state = state;
    line.textContent = text;
  };

  const alive = () => {
    show("live", "Live");
    clearTimeout(watchdog);
    watchdog = setTimeout(lost, silence);
  };

  const close = () => {
    stream?.close();
    clearTimeout(watchdog);
    clearTimeout(retry);
  };

  const open = () => {
    close();
    stream = new EventSource(`events?since=${encodeURIComponent(version)}`);
    stream.addEventListener("open", alive);
    stream.addEventListener("beat", alive);
    stream.addEventListener("change", (event) => { alive(); change(event); });
    stream.addEventListener("error", lost);
  };

  const lost = () => {
    close();
    show("lost", "Disconnected: this page may be out of date. Reconnecting …");
    retry = setTimeout(open, pause);
  };

  find("search").addEventListener("submit", (event) => event.preventDefault());
  find("search").querySelector("button").hidden = true;
  filter.addEventListener("input", apply);
  // A hidden tab has no connection. It connects again when it is visible.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { close(); show("paused", "Paused"); } else open();
  });
  if (filter.value) apply();
  if (!document.hidden) open();
})();
