// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Keeps the page live: it requests itself, and replaces what differs. The server renders and escapes
// everything.
"use strict";

(() => {
  const interval = 2_000;
  const patience = 10_000; // for an answer
  const typing = 300; // between a key and the request

  const find = (id) => document.getElementById(id);
  let timer, request;

  // patch makes an element equal to a fresh one. Elements that stay keep their focus, and details stay
  // open. Elements with IDs are moved, not changed into others.
  const patch = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeName !== fresh.nodeName || old.id !== fresh.id || old.nodeType !== Node.ELEMENT_NODE) {
      old.replaceWith(fresh);
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const wanted = [...fresh.childNodes];
    const kept = new Set(wanted.map((node) => node.id).filter(Boolean));
    for (const node of [...old.children]) if (node.id && !kept.has(node.id)) node.remove();
    wanted.forEach((node, i) => {
      const at = old.childNodes[i];
      const same = node.id ? [...old.children].find((other) => other.id === node.id) : at;
      if (!same || (!node.id && same.id)) {
        old.insertBefore(node, at ?? null);
        return;
      }
      if (same !== at) old.insertBefore(same, at);
      patch(same, node);
    });
    while (old.childNodes.length > wanted.length) old.lastChild.remove();
  };

  const show = (state, text) => {
    const line = find("connection");
    if (line.dataset.state === state) return;
    line.dataset.state = state;
    line.textContent = text;
  };

  const update = async () => {
    clearTimeout(timer);
    request?.abort();
    const current = request = new AbortController();
    const late = setTimeout(() => current.abort("late"), patience);
    try {
      const answer = await fetch(location.href, { signal: current.signal, headers: { Accept: "text/html" } });
      const text = await answer.text();
      if (current !== request) return;
      if (!answer.ok && answer.status !== 404) throw new Error(text);
      const fresh = new DOMParser().parseFromString(text, "text/html");
      document.title = fresh.title;
      patch(document.querySelector("nav"), fresh.querySelector("nav"));
      patch(find("main"), fresh.getElementById("main"));
      show("live", "Updated every 2 seconds");
    } catch (error) {
      if (current !== request) return;
      show("lost", "The hub does not answer: this page may be out of date. Trying again …");
    } finally {
      clearTimeout(late);
      if (current === request) timer = setTimeout(update, interval);
    }
  };

  const pause = () => {
    clearTimeout(timer);
    request?.abort();
    request = undefined;
  };

  // The address has the filter, so a link to it shows the same rows.
  const filter = () => {
    const address = new URL(location.href);
    const text = find("filter").value;
    address.searchParams.delete("page");
    if (text) address.searchParams.set("q", text);
    else address.searchParams.delete("q");
    history.replaceState(null, "", address);
    update();
  };

  document.addEventListener("submit", (event) => {
    if (event.target.method !== "get") return;
    event.preventDefault();
    filter();
  });
  document.addEventListener("input", (event) => {
    if (event.target.id !== "filter") return;
    pause();
    timer = setTimeout(filter, typing);
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      pause();
      show("paused", "Paused");
    } else update();
  });
  if (!document.hidden) update();
})();
