// Keeps a session's page up to date and says when it is not, keeps what was typed, and writes times in the reader's zone.
// Everything works without it, by reloading.
"use strict";

const PATIENCE = 12_000; // ms: the console is heard of every 5 seconds
const RETRY = 2_000; // ms
const KEPT = "textarea, select, input:not([type=hidden], [type=password], [type=file])";
let skew = 0; // ms by which this clock is ahead of the server's

function localTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]:not(.since)")) {
    const moment = new Date(each.dateTime);
    if (!Number.isNaN(moment.valueOf())) {
      each.title = each.dateTime;
      each.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    }
  }
}

function tick() {
  for (const each of document.querySelectorAll("time.since")) {
    const seconds = Math.max(0, Math.round((Date.now() - skew - new Date(each.dateTime)) / 1000));
    const minutes = Math.floor(seconds / 60);
    if (seconds < 60) each.textContent = `${seconds} s`;
    else if (minutes < 60) each.textContent = `${minutes} min ${seconds % 60} s`;
    else each.textContent = `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }
}

const entered = (each) => (each.type === "checkbox" ? String(each.checked) : each.value);
const given = (each) => each.type === "checkbox" ? String(each.defaultChecked) : each.defaultValue ?? [...each.options].find((option) => option.defaultSelected)?.value ?? each.options[0]?.value;
const enter = (each, value) => (each.type === "checkbox" ? (each.checked = value === "true") : (each.value = value));

// Puts a part of the page into its place; what is being typed stays, with the cursor in it, and what is open stays open.
// The server has escaped the parts, and the page's policy allows no inline script.
function replacePart(id, key, html) {
  const target = document.getElementById(id);
  if (target.dataset.key === key) return;
  const typed = [...target.querySelectorAll(`:is(${KEPT})[id]`)].filter((each) => entered(each) !== given(each));
  const name = (each) => each.dataset.open ?? each.querySelector("summary").textContent;
  const known = new Map([...target.querySelectorAll("details")].map((each) => [name(each), each.open]));
  const focused = target.contains(document.activeElement) ? document.activeElement : null;
  const summary = focused?.tagName === "SUMMARY" ? name(focused.parentElement) : null;
  target.innerHTML = html;
  target.dataset.key = key;
  localTimes(target);
  tick();
  for (const each of target.querySelectorAll("details")) {
    if (known.has(name(each))) each.open = known.get(name(each));
    if (summary === name(each)) each.querySelector("summary").focus();
  }
  restoreTyped(target); // a form comes back that was away with its worker
  for (const each of typed) {
    const successor = document.getElementById(each.id);
    if (!successor) continue;
    enter(successor, entered(each));
    if (each === focused) {
      successor.focus();
      if (each.selectionStart != null) successor.setSelectionRange(each.selectionStart, each.selectionEnd);
    }
  }
}

function showDraft(part, number) {
  const draft = document.getElementById("draft");
  draft.textContent = (part.draft === number ? draft.textContent.slice(0, part.offset) : "") + part.text;
  document.getElementById("draft-box").hidden = false;
  return part.draft;
}

function follow(article) {
  const stale = document.getElementById("stale");
  let [source, heard, number, ended] = [null, Date.now(), 0, false];
  const alive = () => {
    heard = Date.now();
    stale.hidden = true;
    article.classList.remove("is-stale");
  };
  const lost = (words) => {
    const time = new Date(heard).toLocaleTimeString(undefined, { timeStyle: "short" });
    if (!ended) stale.textContent = words.replace("%s", time);
    stale.hidden = ended;
    article.classList.toggle("is-stale", !ended);
  };
  const connect = () => {
    if (ended) return;
    source?.close();
    source = new EventSource(article.dataset.stream);
    source.addEventListener("open", alive);
    source.addEventListener("beat", alive);
    source.addEventListener("part", (event) => {
      alive();
      const { id, key, html } = JSON.parse(event.data);
      replacePart(id, key, html);
      const [news, standing] = ["news", "standing"].map((each) => document.getElementById(each));
      if (standing && news.textContent !== standing.textContent) news.textContent = standing.textContent;
    });
    source.addEventListener("text", (event) => (number = showDraft(JSON.parse(event.data), number)));
    source.addEventListener("end", () => {
      ended = true;
      source.close();
      alive();
      document.getElementById("draft-box").hidden = true;
    });
    source.addEventListener("error", async () => {
      source.close(); // a browser gives up after an answer that is no stream
      lost(stale.dataset.words);
      setTimeout(connect, RETRY);
      const page = await fetch(location.pathname, { redirect: "manual" }).catch(() => null);
      if (page?.type === "opaqueredirect") lost(stale.dataset.signedOut);
    });
  };
  connect();
  setInterval(() => {
    if (Date.now() - heard > PATIENCE) lost(stale.dataset.words);
    if (!ended && stale.hidden) tick();
  }, 1000);
  addEventListener("pagehide", () => source.close());
}

const placeOf = (field) => `${new URL(field.form.action).pathname} ${field.name} ${field.id}`;

function restoreTyped(root) {
  for (const each of root.querySelectorAll(`form[method=post] :is(${KEPT})`)) {
    const kept = sessionStorage.getItem(placeOf(each));
    if (kept === null || kept === given(each) || entered(each) !== given(each)) continue;
    enter(each, kept);
    for (let outer = each.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
  }
}

// What is typed outlives a reload, a console that is away and a sign-in; it is forgotten once the console has taken it.
function keepTyped(done) {
  if (done) {
    Object.keys(sessionStorage).filter((each) => each.startsWith(`${done} `)).forEach((each) => sessionStorage.removeItem(each));
    history.replaceState(null, "", location.pathname);
  }
  restoreTyped(document);
  document.addEventListener("input", ({ target }) => {
    if (!target.form || target.form.method !== "post" || !target.matches(KEPT)) return;
    sessionStorage.setItem(placeOf(target), entered(target));
  });
  // A form that is sent while the console is away would leave an error page in place of what was typed.
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.method !== "post" || form.dataset.reached) return;
    event.preventDefault();
    const reached = await fetch("/health").then((answer) => answer.ok).catch(() => false);
    if (!reached) return document.getElementById("away").removeAttribute("hidden");
    form.dataset.reached = "yes";
    form.requestSubmit(event.submitter);
    delete form.dataset.reached;
  });
}

function nameFiles(input) {
  const chosen = document.getElementById("chosen");
  input.addEventListener("change", () => {
    const files = [...input.files];
    const bytes = files.reduce((sum, each) => sum + each.size, 0);
    const large = files.filter((each) => each.size > input.dataset.mostFile);
    const problem = large.length ? `${input.dataset.tooLarge} ${large.map((each) => each.name).join(", ")}` : bytes > input.dataset.mostBytes || files.length > input.dataset.mostFiles ? input.dataset.tooMany : "";
    input.setCustomValidity(problem);
    chosen.textContent = problem || (files.length > 1 ? files.map((each) => each.name).join(", ") : "");
    chosen.classList.toggle("remark", Boolean(problem));
  });
}

localTimes(document);
const article = document.getElementById("session");
if (article) skew = Date.now() - new Date(article.dataset.now);
if (article?.dataset.stream) follow(article);
keepTyped(document.getElementById("main").dataset.done);
const input = document.querySelector("input.drop");
if (input) nameFiles(input);
