// SPDX-License-Identifier: GPL-3.0-or-later
// SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
// The page is complete without this script. It adds the switch of themes, groups, filters, and keys for the picture.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  all("[data-script]").forEach((element) => { element.hidden = false; });

  // Theme. A browser may refuse to store anything for a local file.
  const stored = (value) => {
    try {
      if (value === undefined) { return localStorage.getItem("theme"); }
      localStorage.setItem("theme", value);
    } catch { /* the choice then lasts as long as the page */ }
    return null;
  };
  const themes = all(".theme button");
  const setTheme = (theme) => {
    if (theme === "auto") { delete document.documentElement.dataset.theme; }
    else { document.documentElement.dataset.theme = theme; }
    themes.forEach((button) => button.setAttribute("aria-pressed", String(button.value === theme)));
  };
  setTheme(["light", "dark"].includes(stored()) ? stored() : "auto");
  themes.forEach((button) => button.addEventListener("click", () => { setTheme(button.value); stored(button.value); }));

  // A link to a node opens it.
  const openTarget = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target && target.matches("details.n")) {
      target.hidden = false;
      target.open = true;
      target.querySelector("summary").focus({ preventScroll: true });
      target.scrollIntoView({ block: "start" });
    }
  };
  addEventListener("hashchange", openTarget);

  const picture = one("#picture");
  const nodes = all("details.n");
  if (!picture) { return; }
  const cells = new Map(all(".c", picture).map((cell) => [cell.hash.slice(1), cell]));
  const texts = new Map();
  document.addEventListener("click", (event) => {
    // The same link twice does not change the address.
    const link = event.target.closest && event.target.closest("a[href^='#n']");
    if (link && link.hash === location.hash) { openTarget(); }
  });

  // Groups: the server has made those by GPU model.
  const order = JSON.parse(one("#states").textContent);
  const word = (node, by) => by === "s" ? order[node.dataset.s] : node.dataset[by] || "unknown";
  const group = (by) => {
    const groups = new Map();
    if (by === "s") { Object.values(order).forEach((title) => groups.set(title, [])); }
    for (const node of nodes) {
      const key = word(node, by);
      if (!groups.has(key)) { groups.set(key, []); }
      groups.get(key).push(node);
    }
    let found = [...groups].filter(([, members]) => members.length);
    if (by !== "s") { found = found.sort((a, b) => b[1].length - a[1].length); }
    picture.replaceChildren(...found.map(([title, members]) => {
      const box = document.createElement("div"), heading = document.createElement("h3");
      const count = document.createElement("span"), list = document.createElement("ul");
      box.className = "group";
      list.className = "cells";
      heading.textContent = `${title} `;
      count.textContent = members.length.toLocaleString("en");
      heading.append(count);
      members.forEach((node) => {
        const item = document.createElement("li");
        item.append(cells.get(node.id));
        list.append(item);
      });
      box.append(heading, list);
      return box;
    }));
    rove();
  };

  // One stop of the Tab key for the picture, and arrow keys within it.
  let current = null;
  const rove = (cell) => {
    const listed = all(".c", picture);
    current = cell || (listed.includes(current) ? current : listed[0]);
    listed.forEach((each) => { each.tabIndex = each === current ? 0 : -1; });
  };
  const vertical = (cell, down) => {
    const listed = all(".c", picture), from = cell.getBoundingClientRect(), middle = from.left + from.width / 2;
    const rows = listed.map((each) => [each, each.getBoundingClientRect()])
      .filter(([, box]) => down ? box.top > from.bottom - 1 : box.bottom < from.top + 1);
    const edge = down ? Math.min(...rows.map(([, box]) => box.top)) : Math.max(...rows.map(([, box]) => box.top));
    const near = rows.filter(([, box]) => Math.abs(box.top - edge) < 2)
      .sort(([, a], [, b]) => Math.abs(a.left + a.width / 2 - middle) - Math.abs(b.left + b.width / 2 - middle));
    return near.length ? near[0][0] : null;
  };
  picture.addEventListener("keydown", (event) => {
    const cell = event.target.closest(".c"), listed = all(".c", picture), at = listed.indexOf(cell);
    const next = {
      ArrowRight: () => listed[at + 1], ArrowLeft: () => listed[at - 1], Home: () => listed[0], End: () => listed.at(-1),
      ArrowDown: () => vertical(cell, true), ArrowUp: () => vertical(cell, false),
    }[event.key];
    if (!cell || !next || event.ctrlKey || event.metaKey || event.altKey) { return; }
    event.preventDefault();
    const found = next();
    if (found) { rove(found); found.focus(); }
  });
  picture.addEventListener("focusin", (event) => { if (event.target.matches(".c")) { rove(event.target); } });

  // Filters: by the states in the legend, and by words.
  const search = one("#search"), shown = one("#shown"), chips = all(".chip");
  const filter = () => {
    const states = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.value);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const node of nodes) {
      if (words.length && !texts.has(node)) { texts.set(node, node.textContent.toLowerCase()); }
      const fits = (!states.length || states.includes(node.dataset.s)) && words.every((each) => texts.get(node).includes(each));
      node.hidden = !fits;
      cells.get(node.id).classList.toggle("dim", !fits);
      count += fits ? 1 : 0;
    }
    shown.textContent = count === nodes.length ? "" : `${count.toLocaleString("en")} of ${nodes.length.toLocaleString("en")} nodes`;
  };
  chips.forEach((chip) => chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
    filter();
  }));
  search.addEventListener("input", filter);
  one("#by").addEventListener("change", (event) => group(event.target.value));

  // On paper, the nodes that need work are open.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = nodes.filter((node) => !node.open && node.dataset.s === "bad").slice(0, 50);
    opened.forEach((node) => { node.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((node) => { node.open = false; }));

  rove();
  openTarget();
})();
