"use strict";
// Reads /health, /metrics and /v1/decisions; inserts text only as text, never as markup.

const $ = (selector) => document.querySelector(selector);
const STORED = "guardrail-admin-key";
let key = sessionStorage.getItem(STORED) || "";

function make(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  if (options.class) node.className = options.class;
  if (options.title) node.title = options.title;
  node.append(...children.map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return node;
}

/* On a narrow screen each row stands by itself, and its cells need the names of their columns. */
function fill(table, lines) {
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  for (const line of lines) [...line.cells].forEach((cell, place) => { cell.dataset.name = names[place]; });
  table.tBodies[0].replaceChildren(...lines);
  return table;
}

const word = (text) => make("span", { class: `word ${text}` }, text);
const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "n/a");

async function fetchText(path) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const reply = await fetch(path, { headers });
  if (reply.status === 401 || reply.status === 403) {
    $("#key-form").hidden = false;
    if (!key) throw new Error("an admin key is needed");
    throw new Error(reply.status === 401 ? "this key is unknown here" : "this key is known, but no admin key (admin: true)");
  }
  if (!reply.ok) throw new Error(`${path} answered ${reply.status}`);
  return reply.text();
}

const fetchJson = async (path) => JSON.parse(await fetchText(path));

function parseMetrics(text) {
  const rows = [];
  for (const line of text.split("\n")) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    rows.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return rows;
}

const sum = (rows, name, test = () => true) =>
  rows.filter((row) => row.name === name && test(row.labels)).reduce((total, row) => total + row.value, 0);

function showTiles(rows) {
  const exchanges = sum(rows, "guardrail_exchanges_total");
  const blocked = sum(rows, "guardrail_exchanges_total", (l) => l.outcome.startsWith("blocked"));
  const down = sum(rows, "guardrail_exchanges_total", (l) => l.outcome === "unavailable");
  const counts = (l) => l.cause !== "skipped" && !l.supervisor.includes("/"); // members speak through their panel
  const judged = sum(rows, "guardrail_verdicts_total", counts);
  const unsafe = sum(rows, "guardrail_verdicts_total", (l) => counts(l) && l.label === "unsafe");
  const unknown = sum(rows, "guardrail_verdicts_total", (l) => counts(l) && l.label === "unknown");
  const coherent = sum(rows, "guardrail_coherence_total", (l) => l.state === "coherent");
  const incoherent = sum(rows, "guardrail_coherence_total", (l) => l.state === "incoherent");
  const tiles = [
    ["exchanges", exchanges, "since start"],
    ["blocked", percent(blocked, exchanges), `${blocked} of ${exchanges} exchanges`],
    ["flag rate", percent(unsafe, judged - unknown), `${unsafe} of ${judged - unknown} safe or unsafe verdicts`],
    ["unknown rate", percent(unknown, judged), `${unknown} of ${judged} verdicts`],
    ["supervisor down", down, "exchanges refused for it"],
    ["coherence", percent(coherent, coherent + incoherent), `${coherent} of ${coherent + incoherent} probed`],
  ];
  $("#tiles").replaceChildren(
    ...tiles.map(([name, value, note]) => make("div", { class: "tile" }, name, make("b", {}, value), make("span", {}, note))));
}

function bar(part, whole) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  const rect = document.createElementNS(space, "rect");
  rect.setAttribute("width", whole ? (100 * part) / whole : 0);
  rect.setAttribute("height", 10);
  svg.append(rect);
  return make("span", {}, make("span", { class: "bar" }, svg), percent(part, whole));
}

function showSupervisors(rows) {
  const groups = new Map();
  for (const { name, labels, value } of rows) {
    if (name !== "guardrail_verdicts_total" || labels.cause === "skipped") continue;
    const id = JSON.stringify([labels.supervisor, labels.stage, labels.mode]);
    const group = groups.get(id) || { safe: 0, unsafe: 0, unknown: 0 };
    group[labels.label] += value;
    groups.set(id, group);
  }
  const lines = [...groups].sort().map(([id, group]) => {
    const [supervisor, stage, mode] = JSON.parse(id);
    const test = (l) => l.supervisor === supervisor && l.stage === stage;
    const count = sum(rows, "guardrail_supervisor_seconds_count", test);
    const mean = count ? (1000 * sum(rows, "guardrail_supervisor_seconds_sum", test)) / count : 0;
    const answered = group.safe + group.unsafe;
    return make("tr", {}, make("td", {}, supervisor), make("td", {}, stage), make("td", {}, mode),
      make("td", { class: "n" }, answered), make("td", { class: "n" }, group.unsafe),
      make("td", {}, bar(group.unsafe, answered)), make("td", { class: "n" }, group.unknown),
      make("td", { class: "n" }, mean.toFixed(mean < 10 ? 2 : 0)));
  });
  fill($("#supervisors"), lines);
}

function actionOf(record, stage) {
  const order = ["pass", "flag", "redact", "block"];
  const actions = record.decisions.filter((made) => made.stage === stage).map((made) => made.action);
  return actions.sort((a, b) => order.indexOf(b) - order.indexOf(a))[0];
}

function showDecisions(records) {
  $("#empty").hidden = records.length > 0;
  fill($("#decisions"), records.map((record) => {
    const verdicts = record.verdicts.filter((row) => row.cause !== "skipped").map((row) =>
      make("span", { class: `word ${row.label}`, title: [row.stage, row.cause, ...row.categories].filter(Boolean).join(", ") },
        row.supervisor));
    const cells = ["input", "output"].map((stage) => {
      const action = actionOf(record, stage);
      return make("td", {}, action ? word(action) : "–");
    });
    const line = make("tr", {}, make("td", {}, record.time.slice(0, 19).replace("T", " ")), make("td", {}, record.model),
      make("td", {}, word(record.outcome)), ...cells, make("td", {}, ...verdicts),
      make("td", { class: "n" }, (1000 * record.seconds).toFixed(0)));
    line.tabIndex = 0;
    line.addEventListener("click", () => showDetail(record));
    line.addEventListener("keydown", (event) => event.key === "Enter" && showDetail(record));
    return line;
  }));
}

function listOf(entries) {
  return make("dl", {}, ...entries.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function showDetail(record) {
  $("#detail-title").textContent = record.id;
  const names = ["supervisor", "stage", "verdict", "score", "categories", "detail", "ms"].map((name) => make("th", {}, name));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...names)), make("tbody"));
  const verdicts = fill(table, record.verdicts.map((row) =>
    make("tr", {}, make("td", {}, row.supervisor), make("td", {}, row.stage + (row.choice === null ? "" : ` ${row.choice}`)),
      make("td", {}, word(row.label), row.cause || ""), make("td", { class: "n" }, row.score ?? "–"),
      make("td", {}, row.categories.join(", ")), make("td", {}, [row.detail, row.transform].filter(Boolean).join(" ")),
      make("td", { class: "n" }, (1000 * row.seconds).toFixed(1)))));
  const facts = [
    ["outcome", record.outcome], ["request id", record.request_id], ["model", `${record.model} → ${record.model_served || "–"}`],
    ["policies", record.policy.names.join(", ") || "none"], ["config", record.policy.version.slice(0, 12)],
    ["status", `${record.client.status}, ${record.client.bytes} bytes, ${record.client.finish_reasons.join(", ") || "no choice"}`],
    ["overhead", `${(1000 * record.overhead_s).toFixed(1)} ms`],
    ["coherence", record.coherence ? `${record.coherence.state}: own verdict ${record.coherence.own_verdict}, ${record.coherence.kind}` : "not probed"],
  ];
  $("#detail-body").replaceChildren(listOf(facts), verdicts,
    make("details", {}, make("summary", {}, "whole record"), make("pre", {}, JSON.stringify(record, null, 1))));
  $("#detail").showModal();
}

async function refresh() {
  try {
    const filters = new URLSearchParams([...new FormData($("#filters"))].filter(([, value]) => value));
    filters.set("limit", "50");
    const [health, metrics, decisions] = await Promise.all(
      [fetchJson("../health"), fetchText("../metrics"), fetchJson(`../v1/decisions?${filters}`)]);
    $("#about").textContent = `${health.version} · ${health.status} · config ${health.config_version.slice(0, 12)} · boot ${health.boot}`;
    const rows = parseMetrics(metrics);
    showTiles(rows);
    showSupervisors(rows);
    showDecisions(decisions.data);
    $("#key-form").hidden = true;
  } catch (error) {
    $("#about").textContent = error.message;
  }
}

$("#key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = $("#key").value;
  sessionStorage.setItem(STORED, key);
  refresh();
});
$("#filters").addEventListener("change", refresh);
$("#filters").addEventListener("submit", (event) => event.preventDefault());
setInterval(() => $("#live").checked && !document.hidden && !$("#detail").open && refresh(), 2000);
refresh();
