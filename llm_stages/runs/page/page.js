// Shows a run. All text of users, models and tools is data: it is only ever set as `textContent`.
"use strict";

const $ = (id) => document.getElementById(id);
const LONG = 20000; // characters of a text that are shown at first
const PARTS = ["system", "tools", "history", "results", "reply"];
const SECTIONS = [
  ["request", "Request"],
  ["difference", "What changed"],
  ["reply", "Raw reply"],
  ["decision", "Decision"],
  ["calls", "Calls"],
  ["numbers", "Tokens and cost"],
];
let data = JSON.parse($("data").textContent);
let requests = []; // the messages of each request, as indexes
let selected = 0;
let found = null; // the number of hits of each turn, while searching
let words = [];

// ---- elements

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key === "class") made.className = value;
    else if (key === "style") Object.assign(made.style, value);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((each) => each !== null && each !== undefined));
  return made;
}

// A text in a box; `marks` are [start, end, class, title] in characters of the text.
function textBox(text, marks = []) {
  const box = element("pre", { dir: "auto", tabindex: "0" });
  const show = (end) => {
    box.replaceChildren(...marked(text.slice(0, end), marks));
  };
  show(LONG);
  if (text.length <= LONG) return box;
  const more = element("button", { type: "button", class: "more", onclick: () => { show(text.length); more.remove(); } },
    `Show all ${text.length.toLocaleString("en")} characters`);
  return element("div", {}, box, more);
}

function marked(text, marks) {
  const pieces = [];
  let at = 0;
  for (const [start, end, name, title] of [...marks].sort((a, b) => a[0] - b[0])) {
    if (start < at || start > text.length) continue;
    pieces.push(...withHits(text.slice(at, start)));
    pieces.push(element("mark", { class: name, title }, text.slice(start, Math.max(end, start)) || "‸"));
    at = Math.max(end, start);
  }
  pieces.push(...withHits(text.slice(at)));
  return pieces;
}

function withHits(text) {
  if (!words.length || !text) return [text];
  const pieces = [], lower = text.toLowerCase(), word = words[0];
  let at = 0;
  for (let next = lower.indexOf(word); next >= 0 && pieces.length < 2000; next = lower.indexOf(word, at)) {
    pieces.push(text.slice(at, next), element("mark", {}, text.slice(next, next + word.length)));
    at = next + word.length;
  }
  pieces.push(text.slice(at));
  return pieces;
}

const count = (amount, noun) => `${amount.toLocaleString("en")} ${noun}${amount === 1 ? "" : "s"}`;
const number = (value) => value === null || value === undefined ? "–" : value.toLocaleString("en");
const seconds = (value) => value === null || value === undefined ? "–" : value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(value < 10 ? 2 : 1)} s`;
const dollars = (value) => value === null || value === undefined ? "–" : `$${value.toPrecision(3)}`;
const asText = (value) => typeof value === "string" ? value : JSON.stringify(value, null, 2);
const pill = (text, name) => element("span", { class: `pill ${name}` }, text);

// ---- data

// Each request is stored as slices of the previous request and new messages.
function rebuild() {
  requests = [];
  let before = [];
  for (const turn of data.turns) {
    const now = [];
    for (const each of turn.request.messages) {
      if (Array.isArray(each)) now.push(...before.slice(each[0], each[1]));
      else now.push(each);
    }
    requests.push(now);
    before = now;
  }
}

// Whether there is no earlier request of the same run to compare with.
const isFirst = (index) => requests[index - 1] === undefined || !requests[index - 1].length || data.turns[index - 1].run !== data.turns[index].run;

function difference(index) {
  const before = isFirst(index) ? [] : requests[index - 1], now = requests[index];
  const old = new Set(before), current = new Set(now);
  const added = now.filter((each) => !old.has(each));
  const gone = before.filter((each) => !current.has(each));
  const changed = [];
  for (const each of [...gone]) { // the same place and role with another text: rendered differently
    const at = before.indexOf(each), other = now[at];
    if (other === undefined || !added.includes(other)) continue;
    if (data.messages[other].role !== data.messages[each].role) continue;
    changed.push([each, other]);
    gone.splice(gone.indexOf(each), 1);
    added.splice(added.indexOf(other), 1);
  }
  const reasons = new Map(data.turns[index].request.dropped.map((each) => [each.message, each.reason]));
  const dropped = gone.map((each) => [each, reasons.get(each) || "not in this request"]);
  for (const [each, reason] of reasons) if (!gone.includes(each)) dropped.push([each, reason]);
  return { added, dropped, changed };
}

function summary(turn) {
  if (turn.number && !turn.reply) return turn.failed || "no reply yet";
  if (turn.calls.length) return turn.calls.map((call) => call.name).join(", ");
  return { reply: "final reply", feedback: "invalid reply, feedback", stopped: "stopped by the provider" }[turn.decision?.kind] || "reply";
}

const isBad = (turn) => (turn.number && !turn.reply) || turn.decision?.kind === "feedback" || turn.calls.some((call) => call.is_error);

// ---- the list of turns

function showList() {
  const list = $("turns");
  list.replaceChildren();
  // Few turns share one time axis. Of many turns, each one begins at the left.
  const start = (turn) => data.turns.length > 20 ? turn.start : runOf(turn).offset;
  const length = Math.max(0.001, ...data.turns.map((turn) => ending(turn) - start(turn)));
  let run = -1;
  data.turns.forEach((turn, index) => {
    if (turn.run !== run) {
      run = turn.run;
      if (data.runs.length > 1) list.append(element("li", { class: "run-title" }, `Run ${run + 1}: ${data.runs[run].question || ""}`));
    }
    const label = turn.number === 0 ? "–" : String(turn.number);
    const link = element("a", { href: `#turn-${index + 1}`, "aria-current": String(index === selected) },
      element("span", { class: "number" }, element("span", { class: "hidden" }, "Turn "), label),
      element("span", { class: `what ${isBad(turn) ? "bad" : ""}` }, summary(turn), found ? " " : "", found?.[index] ? element("span", { class: "hits" }, count(found[index], "hit")) : ""),
      element("span", { class: "time" }, seconds(turn.seconds)),
      bars(turn, start(turn), length));
    const item = element("li", { hidden: found && !found[index] ? "" : undefined }, link);
    list.append(item);
  });
  showChart();
}

const runOf = (turn) => data.runs[turn.run];
const ending = (turn) => Math.max(turn.start + (turn.seconds || 0), ...turn.calls.map((call) => call.start + (call.seconds || 0)));

// The time of the model and of each call; parallel calls are in separate lanes.
function bars(turn, from, all) {
  const lanes = [];
  const box = element("span", { class: "bars", "aria-hidden": "true" });
  const draw = (name, start, seconds, lane) => box.append(element("i", { class: `bar ${name}`, style: {
    left: `${(100 * (start - from)) / all}%`, width: `${(100 * (seconds || 0)) / all}%`, top: `${lane * 0.5}rem` } }));
  draw("model", turn.start, turn.seconds, 0);
  for (const call of turn.calls) {
    let lane = lanes.findIndex((free) => free <= call.start);
    if (lane < 0) lane = lanes.push(0) - 1;
    lanes[lane] = call.start + (call.seconds || 0);
    draw(call.is_error ? "bad" : "call", call.start, call.seconds, Math.min(lane, 7) + 1);
  }
  box.style.height = `${0.4 + 0.5 * Math.min(lanes.length, 8)}rem`;
  return box;
}

function showChart() {
  const totals = data.turns.map((turn) => PARTS.reduce((sum, part) => sum + (turn.parts[part] || 0), 0));
  const most = Math.max(1, ...totals);
  const label = (turn, index) => `Turn ${turn.number}: about ${number(totals[index])} tokens${typeof turn.reply?.cost === "number" ? `, ${dollars(turn.reply.cost)}` : ""}`;
  $("chart").replaceChildren(...data.turns.map((turn, index) => element("a", {
    href: `#turn-${index + 1}-numbers`, tabindex: "-1", "aria-current": String(index === selected), title: label(turn, index),
  }, element("span", { class: "hidden" }, label(turn, index)),
  ...PARTS.map((part) => element("i", { class: part, style: { height: `${(100 * (turn.parts[part] || 0)) / most}%` } })))));
  const names = element("p", { class: "parts" }, ...PARTS.map((part) => element("span", {}, element("i", { class: part }), part)));
  $("chart").parentNode.querySelector(".parts")?.remove();
  $("chart").after(names);
}

// ---- one turn

function showTurn(index, section = "") {
  selected = Math.max(0, Math.min(index, data.turns.length - 1));
  for (const link of document.querySelectorAll("#turns a, #chart a")) {
    link.setAttribute("aria-current", String(link.hash.split("-")[1] === String(selected + 1)));
  }
  document.querySelector("#turns a[aria-current=true]")?.scrollIntoView({ block: "nearest" });
  const turn = data.turns[selected];
  if (!turn) return $("turn").replaceChildren(element("p", { class: "note" }, "This run has no turn."), ending_());
  $("turn").replaceChildren(...turnParts(selected));
  $("announcement").textContent = `Turn ${turn.number}, ${selected + 1} of ${data.turns.length}: ${summary(turn)}`;
  if (section) {
    $(section)?.focus({ preventScroll: true }); // the next Tab continues here
    $(section)?.scrollIntoView();
  } else window.scrollTo({ top: 0, behavior: "instant" });
}

function turnParts(index) {
  const turn = data.turns[index], last = index === data.turns.length - 1 || data.turns[index + 1].run !== turn.run;
  const builders = { request: requestPart, difference: differencePart, reply: replyPart, decision: decisionPart, calls: callsPart, numbers: numbersPart };
  const parts = SECTIONS.map(([id, title]) => {
    const [note, ...content] = builders[id](turn, index);
    return element("section", { class: "part", id: id, tabindex: "-1", "aria-labelledby": `${id}-title` },
      element("h3", { id: `${id}-title` }, title, element("small", {}, note)), ...content);
  });
  const links = element("nav", { class: "sections", "aria-label": "Parts of this turn" }, ...SECTIONS.map(([id, title], at) =>
    element("a", { href: `#turn-${index + 1}-${id}` }, element("kbd", {}, String(at + 1)), " ", title)));
  const title = turn.number === 0 ? "Calls of an earlier reply" : `Turn ${turn.number}`;
  return [element("header", {}, element("h2", {}, title), element("span", { class: "facts" }, `${summary(turn)} · ${seconds(turn.seconds)}`)),
    links, ...parts, last ? ending_(runOf(turn)) : null].filter(Boolean);
}

function ending_(run = data.runs[0]) {
  if (!run) return null;
  const state = run.status || "The file ends here: the run has not ended, or was killed.";
  return element("section", { class: "part" }, element("h3", {}, "End of the run", element("small", {}, pill(state, run.status === "completed" ? "good" : "warn"))),
    run.reason ? element("p", {}, run.reason) : null, run.reply ? textBox(run.reply) : null,
    element("details", {}, element("summary", {}, "About this run"), factsTable(run.facts)));
}

const factsTable = (facts) => element("table", {}, element("tbody", {}, ...Object.entries(facts).map(([key, value]) =>
  element("tr", {}, element("th", { scope: "row" }, key), element("td", {}, asText(value))))));

function messageBox(index, name = "", note = "") {
  const message = data.messages[index];
  if (!message) return element("p", { class: "note" }, "This message is not in the file.");
  const about = [message.name, message.call_id ? `answers ${message.call_id}` : "", message.is_error ? "error" : "", note].filter(Boolean).join(" · ");
  const box = element("div", { class: `message ${name}` },
    element("p", {}, element("span", { class: "role" }, message.role), about ? ` · ${about}` : ""));
  if (message.text) box.append(textBox(message.text));
  for (const part of message.parts || []) box.append(element("h4", {}, part.kind), textBox(part.text));
  for (const call of message.calls || []) box.append(element("h4", {}, `calls ${call.name} (${call.id})`), textBox(call.arguments));
  return box;
}

function requestPart(turn, index) {
  const list = requests[index], tools = data.tools[turn.request.tools] || [];
  const { added } = difference(index);
  return [`${count(list.length, "message")}, ${count(tools.length, "tool")}`,
    Object.keys(turn.request.settings).length ? factsTable(turn.request.settings) : null,
    tools.length ? element("details", {}, element("summary", {}, count(tools.length, "tool")), ...tools.map((tool) =>
      element("div", {}, element("h4", {}, tool.name, " ", tool.effect ? pill(tool.effect, "") : ""), element("p", {}, tool.description || ""), textBox(asText(tool.parameters))))) : null,
    ...requestMessages(list, new Set(isFirst(index) ? [] : added))];
}

// The messages of a request. Many messages in a row that the previous request also has are folded.
function requestMessages(list, added) {
  const boxes = [];
  let row = [];
  const flush = () => {
    if (row.length > 6) {
      const folded = row.splice(2, row.length - 4), details = element("details", {}, element("summary", {}, `${folded.length} messages as in the previous request`));
      details.addEventListener("toggle", () => details.append(...folded.map((each) => messageBox(each))), { once: true });
      boxes.push(...row.slice(0, 2).map((each) => messageBox(each)), details, ...row.slice(2).map((each) => messageBox(each)));
    } else boxes.push(...row.map((each) => messageBox(each)));
    row = [];
  };
  for (const each of list) {
    if (!added.has(each)) { row.push(each); continue; }
    flush();
    boxes.push(messageBox(each, "added", "new in this request"));
  }
  if (added.size) flush();
  else boxes.push(...row.map((each) => messageBox(each)));
  return boxes;
}

function differencePart(turn, index) {
  const { added, dropped, changed } = difference(index);
  if (isFirst(index) && !dropped.length) return ["first request", element("p", { class: "note" }, "All messages of the first request are new.")];
  const note = `${added.length} added, ${dropped.length} dropped, ${changed.length} rendered differently`;
  return [note,
    ...added.map((each) => messageBox(each, "added", "added")),
    ...changed.flatMap(([old, now]) => [messageBox(old, "changed", "before"), messageBox(now, "changed", "rendered differently")]),
    ...dropped.map(([each, reason]) => messageBox(each, "dropped", `dropped: ${reason}`)),
    added.length + dropped.length + changed.length ? null : element("p", { class: "note" }, "The same messages as before.")];
}

function replyPart(turn) {
  const reply = turn.reply;
  if (!reply) return [turn.failed ? "failed" : "missing", element("p", { class: "note" }, turn.failed || (turn.number ? "The file ends before the reply." : "The reply was given, or belongs to an earlier run."))];
  const decision = turn.decision || {}, marks = (decision.repairs || []).map((each) =>
    [each.start, each.end, "repair", `repair: ${each.name}`]);
  const note = [`finish reason ${reply.finish_reason}`, reply.model, reply.request_id].filter(Boolean).join(" · ");
  const selection = decision.start !== undefined && decision.start !== null ? [[decision.start, decision.end]] : [];
  return [note, textWithSelection(reply.text, selection, marks),
    ...(reply.calls || []).map((call) => element("div", {}, element("h4", {}, `native call ${call.name} (${call.id})`), textBox(call.arguments))),
    reply.refusal ? element("p", { class: "bad" }, `Refused: ${reply.refusal}`) : null,
    reply.thinking ? element("details", {}, element("summary", {}, "Thinking"), textBox(reply.thinking)) : null,
    attempts(reply.attempts || [])];
}

// The selected JSON has a frame; repairs are marked inside of it.
function textWithSelection(text, selection, marks) {
  if (!text) return element("p", { class: "note" }, "No text.");
  if (!selection.length || text.length > LONG) return textBox(text, marks);
  const [[start, end]] = selection, shift = (from, to) => marks
    .filter((mark) => mark[0] >= from && mark[0] <= to)
    .map(([a, b, ...rest]) => [a - from, b - from, ...rest]);
  return element("pre", { dir: "auto", tabindex: "0" }, ...withHits(text.slice(0, start)),
    element("mark", { class: "found", title: "the JSON that was read" }, ...marked(text.slice(start, end), shift(start, end))),
    ...marked(text.slice(end), shift(end + 1, text.length)));
}

function attempts(list) {
  if (list.length < 2 && !list.some((each) => each.error)) return null;
  return element("div", {}, element("h4", {}, "Attempts"), element("ul", {}, ...list.map((each) =>
    element("li", {}, `${each.model || ""} ${each.error ? `failed: ${each.error}` : "answered"}${each.seconds ? `, ${seconds(each.seconds)}` : ""}`))));
}

function decisionPart(turn) {
  const decision = turn.decision;
  if (!decision) return ["", element("p", { class: "note" }, "No decision.")];
  const kinds = { calls: ["tool calls", "good"], reply: ["final reply", "good"], feedback: ["invalid", "bad"], stopped: ["stopped by the provider", "warn"] };
  const [text, name] = kinds[decision.kind] || [decision.kind, ""];
  return [pill(text, name),
    decision.candidates || decision.feedback ? element("p", {}, `Candidates for JSON in the text: ${decision.candidates}`) : null,
    listPart("Not readable", decision.unreadable, "bad"),
    listPart("Repairs", decision.repairs?.map((each) => `${each.name} at character ${each.start}`)),
    listPart("Issues", decision.issues, "bad"),
    decision.feedback ? element("div", {}, element("h4", {}, "Feedback to the model"), textBox(decision.feedback)) : null,
    decision.reply ? element("div", {}, element("h4", {}, "Reply"), textBox(decision.reply)) : null];
}

function listPart(title, lines, name = "") {
  if (!lines?.length) return null;
  return element("div", {}, element("h4", {}, title), element("ul", {}, ...lines.map((each) => element("li", { class: name }, each))));
}

function callsPart(turn) {
  if (!turn.calls.length) return ["none"];
  const from = Math.min(...turn.calls.map((call) => call.start));
  const all = Math.max(0.001, ...turn.calls.map((call) => call.start + (call.seconds || 0) - from));
  return [`${turn.calls.length}`, ...turn.calls.map((call) => element("div", { class: "tool-call" },
    element("p", {}, element("code", {}, call.name), pill(call.status || "no result", call.is_error || !call.status ? "bad" : "good"),
      element("span", { class: "note" }, [call.id, call.effect, call.cached ? "cached" : "", call.attempts > 1 ? `${call.attempts} attempts` : "", seconds(call.seconds)].filter(Boolean).join(" · "))),
    element("div", { class: "lane", "aria-hidden": "true" }, element("i", { class: `bar ${call.is_error ? "bad" : "call"}`, style: { left: `${(100 * (call.start - from)) / all}%`, width: `${(100 * (call.seconds || 0)) / all}%` } })),
    element("h4", {}, "Arguments as written"), textBox(call.arguments),
    call.used !== undefined && call.used !== null ? element("div", {}, element("h4", {}, "Arguments as used"), textBox(asText(call.used))) : null,
    listPart("Repairs of the arguments", call.repairs),
    call.approval ? element("p", {}, `Approval: ${call.approval}`) : null,
    listPart("Progress", call.progress.map(asText)),
    listPart("Failed attempts", call.retries),
    call.output !== undefined && call.output !== null ? element("div", {}, element("h4", {}, "Result for the model"), textBox(call.output)) : null,
    call.error ? element("p", { class: "bad" }, `Error: ${call.error}`) : null,
    call.variable ? element("p", {}, `Stored as the variable ${call.variable}`) : null,
    call.details !== undefined && call.details !== null ? element("details", {}, element("summary", {}, "Details for people"), textBox(asText(call.details))) : null))];
}

// The cost of the replies of a run up to a turn; unknown if no reply has a cost.
function costUntil(index) {
  const costs = data.turns.slice(0, index + 1).filter((turn) => turn.run === data.turns[index].run)
    .map((turn) => turn.reply?.cost).filter((cost) => typeof cost === "number");
  return costs.length ? costs.reduce((sum, cost) => sum + cost, 0) : null;
}

function numbersPart(turn, index) {
  const usage = turn.reply?.usage || {};
  const rows = [
    ...PARTS.map((part) => [element("span", {}, element("i", { class: `swatch ${part}` }), part), turn.parts[part] === undefined ? "–" : `about ${number(turn.parts[part])}`]),
    ...Object.entries(usage).filter(([, value]) => value !== null).map(([key, value]) => [`reported: ${key.replaceAll("_", " ")}`, number(value)]),
    ["cost", dollars(turn.reply?.cost)],
    ["cost of the run up to this turn", dollars(costUntil(index))],
  ];
  return ["", element("table", {}, element("tbody", {}, ...rows.map(([key, value]) => element("tr", {}, element("th", { scope: "row" }, key), element("td", {}, value)))))];
}

// ---- the head of the page

function showHead() {
  const run = data.runs[data.newest] || {}, usage = run.usage || {};
  document.title = `${run.question || "Run"} · ${data.file}`;
  document.querySelector(".kind").textContent = [data.file, run.model, run.dialect].filter(Boolean).join(" · ");
  $("question").textContent = run.question || "Run without a question";
  $("question").title = run.question || "";
  const calls = data.turns.reduce((sum, turn) => sum + turn.calls.length, 0);
  const totals = [["status", run.status || "not ended"], ["turns", number(data.turns.length)], ["calls", number(calls)],
    ["tokens in", number(usage.input_tokens)], ["tokens out", number(usage.output_tokens)], ["cost", dollars(run.cost)], ["time", seconds(run.seconds)]];
  $("totals").replaceChildren(...totals.map(([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, value))));
  $("problems").textContent = data.problems.join(" ");
}

// ---- search, keys, links

function textOfTurn(turn, index) {
  const messages = difference(index).added;
  return [...messages.map((each) => JSON.stringify(data.messages[each])), turn.reply?.text, JSON.stringify(turn.decision),
    ...turn.calls.map((call) => [call.name, call.arguments, call.output, asText(call.details ?? "")].join("\n"))].join("\n").toLowerCase();
}

let texts = null;
function countHits() {
  if (words.length) texts = texts || data.turns.map(textOfTurn);
  found = words.length ? texts.map((text) => text.split(words[0]).length - 1) : null;
}

function search(query) {
  const word = query.trim().toLowerCase();
  words = word ? [word] : [];
  countHits();
  const first = found ? found.findIndex((hits) => hits > 0) : selected;
  if (first >= 0 && found && !found[selected]) selected = first;
  $("problems").textContent = first < 0 ? `No turn contains “${query.trim()}”.` : data.problems.join(" ");
  showList();
  showTurn(selected);
}

function toggleTheme() {
  const dark = document.documentElement.dataset.theme === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

function step(by) {
  let next = selected + by;
  while (found && data.turns[next] && !found[next]) next += Math.sign(by);
  if (!data.turns[next]) return;
  selected = next; // now, because the next key may come before the event of the link
  location.hash = `#turn-${next + 1}`;
}

function followLink() {
  const [, turn, section] = location.hash.match(/^#turn-(\d+)(?:-(\w+))?$/) || [];
  if (turn) showTurn(Number(turn) - 1, section);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  if (event.target === $("search")) {
    if (event.key === "Escape") { $("search").value = ""; search(""); $("search").blur(); }
    return;
  }
  const inBox = event.target.tagName === "PRE";
  const keys = { j: () => step(1), k: () => step(-1), "/": () => $("search").focus(), t: toggleTheme, "?": () => $("help").showModal(),
    Home: () => step(-selected), End: () => step(data.turns.length - 1 - selected) };
  if (!inBox) Object.assign(keys, { ArrowDown: () => step(1), ArrowUp: () => step(-1) });
  SECTIONS.forEach(([id], at) => { keys[String(at + 1)] = () => { location.hash = `#turn-${selected + 1}-${id}`; }; });
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});

// Printed are all turns; on the screen, one.
window.addEventListener("beforeprint", () => $("turn").replaceChildren(...data.turns.flatMap((_, index) => turnParts(index))));
window.addEventListener("afterprint", () => showTurn(selected));
window.addEventListener("hashchange", followLink);
$("search").addEventListener("input", (event) => search(event.target.value));
$("theme").addEventListener("click", toggleTheme);
$("keys").addEventListener("click", () => $("help").showModal());

function showAll() {
  texts = null;
  rebuild();
  countHits();
  showHead();
  showList();
}

// A page that is served follows a growing run.
async function follow() {
  try {
    const answer = await fetch(`data?known=${encodeURIComponent(data.known)}`, { cache: "no-store" });
    if (answer.status === 200) {
      const atEnd = selected >= data.turns.length - 1;
      data = await answer.json();
      showAll();
      if (atEnd) showTurn(data.turns.length - 1);
    }
  } catch (error) {
    $("problems").textContent = "The server does not answer; the page shows what it received.";
  }
  setTimeout(follow, 1000);
}

if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.dataset.theme = "dark";
showAll();
if (location.hash) followLink();
if (!$("turn").hasChildNodes()) showTurn(0);
if (data.follow) follow();
