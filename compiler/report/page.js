"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const CONTEXT = 3; // unchanged lines that are shown around a change
const LONGEST = 3000; // lines that are shown at once; a button shows the next ones

// versions[k]: the numbers of the lines of the program after pass k
const versions = [];
for (const edits of data.edits) {
  const lines = versions.length ? versions[versions.length - 1].slice() : [];
  for (const [start, removed, added] of edits) lines.splice(start, removed, ...added);
  versions.push(lines);
}

function line(number, mark, kind) {
  const span = document.createElement("span");
  span.textContent = mark + data.lines[number];
  if (kind) span.className = kind;
  span.dataset.line = number;
  return span;
}

function fold(parent, label, rows) {
  if (!rows.length) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = label;
  button.rows = rows;
  button.addEventListener("click", () => open(button));
  parent.append(button);
}

function open(button) {
  const shown = button.rows.slice(0, LONGEST), rest = button.rows.slice(LONGEST);
  const parts = document.createDocumentFragment();
  for (const row of shown) parts.append(line(...row));
  fold(parts, `… ${rest.length} more lines`, rest);
  button.replaceWith(parts);
}

function whole(pre, numbers) {
  fold(pre, "", numbers.map((number) => [number, "", ""]));
  if (pre.firstElementChild) open(pre.firstElementChild);
}

function difference(pre, step) {
  const before = versions[step - 1];
  const edits = data.edits[step].slice().reverse(); // top down
  let at = 0;
  const same = (end, first, last) => {
    const head = first ? 0 : CONTEXT, tail = last ? 0 : CONTEXT;
    const rows = before.slice(at, end).map((number) => [number, "  ", ""]);
    if (rows.length <= head + tail + 1) {
      rows.forEach((row) => pre.append(line(...row)));
    } else {
      rows.slice(0, head).forEach((row) => pre.append(line(...row)));
      fold(pre, `⋯ ${rows.length - head - tail} unchanged lines`, rows.slice(head, rows.length - tail));
      rows.slice(rows.length - tail).forEach((row) => pre.append(line(...row)));
    }
    at = end;
  };
  edits.forEach(([start, removed, added], index) => {
    same(start, index === 0, false);
    const rows = before.slice(start, start + removed).map((number) => [number, "- ", "removed"]);
    rows.push(...added.map((number) => [number, "+ ", "added"]));
    rows.slice(0, LONGEST).forEach((row) => pre.append(line(...row)));
    fold(pre, `… ${rows.length - LONGEST} more changed lines`, rows.slice(LONGEST));
    at = start + removed;
  });
  same(before.length, false, true);
}

function fill(pre) {
  if (pre.filled || pre.classList.contains("python")) return;
  pre.filled = true;
  if (pre.dataset.source !== undefined) return whole(pre, data.sources[pre.dataset.source][pre.dataset.part]);
  const step = Number(pre.dataset.step);
  if (step > 0) return difference(pre, step);
  const numbers = versions.length ? versions[step === 0 ? 0 : versions.length - 1] : [];
  whole(pre, numbers);
}

document.addEventListener("toggle", (event) => {
  if (event.target.open) event.target.querySelectorAll("pre[data-step], pre[data-source]").forEach((pre) => {
    if (pre.closest("details") === event.target) fill(pre);
  });
}, true);

// search

const query = document.getElementById("query"), found = document.getElementById("found");
const HITS = 200;
const first = new Map(); // number of a line -> where it first is: a pass, or a source of a kernel
data.edits.forEach((edits, step) => edits.forEach(([, , added]) => added.forEach((number) => {
  if (!first.has(number)) first.set(number, { step });
})));
data.sources.forEach((parts, kernel) => parts.forEach((numbers, part) => numbers.forEach((number) => {
  if (!first.has(number)) first.set(number, { kernel, part });
})));

function search(text) {
  const results = document.getElementById("results"), wanted = text.toLowerCase();
  results.replaceChildren();
  found.hidden = !wanted;
  if (!wanted) return;
  let count = 0;
  data.lines.forEach((content, number) => {
    const where = first.get(number);
    if (!where || !content.toLowerCase().includes(wanted)) return;
    count += 1;
    if (count > HITS) return;
    const item = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.textContent = content.trim().slice(0, 300);
    button.addEventListener("click", () => show(number, where));
    item.append(button);
    results.append(item);
  });
  document.getElementById("hits").textContent = count === 0 ? "no line has this text"
    : count > HITS ? `${count} lines; the first ${HITS} are listed` : count === 1 ? "1 line" : `${count} lines`;
}

function show(number, where) {
  const selector = where.kernel !== undefined
    ? `pre[data-source="${where.kernel}"][data-part="${where.part}"]` : `pre[data-step="${where.step}"]`;
  const pre = document.querySelector(selector);
  if (!pre) return;
  for (let around = pre.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
  fill(pre);
  let target = pre.querySelector(`[data-line="${number}"]`), button;
  while (!target && (button = pre.querySelector("button"))) {
    open(button);
    target = pre.querySelector(`[data-line="${number}"]`);
  }
  if (!target) return;
  document.querySelectorAll(".hit").forEach((old) => old.classList.remove("hit"));
  target.classList.add("hit");
  target.scrollIntoView({ block: "center", inline: "start" });
}

let waiting = 0;
query.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => search(query.value.trim()), 120);
});
document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search(query.value.trim());
});

// theme, unchanged passes, keyboard

const root = document.documentElement;
root.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
const turn = () => root.classList.toggle("dark");
document.getElementById("theme").addEventListener("click", turn);
document.getElementById("unchanged").addEventListener("change", (event) => {
  document.getElementById("passes").classList.toggle("all", event.target.checked);
});

const passes = [...document.querySelectorAll("details.pass")];
function step(by) {
  const here = passes.findIndex((each) => each.open);
  const next = passes[here < 0 ? (by > 0 ? 0 : passes.length - 1) : Math.min(Math.max(here + by, 0), passes.length - 1)];
  if (!next) return;
  passes.forEach((each) => { each.open = each === next; });
  next.querySelector("summary").focus();
  next.scrollIntoView({ block: "start" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === query) {
    if (event.key === "Escape") { query.value = ""; search(""); query.blur(); }
    return;
  }
  const keys = { "/": () => query.focus(), n: () => step(1), p: () => step(-1), t: turn };
  const action = keys[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
