// Keeps a session's page up to date, and writes times in the reader's time zone. Everything works without it, by reloading.
"use strict";

function localTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(each.dateTime);
    if (!Number.isNaN(moment.valueOf())) {
      each.title = each.dateTime;
      each.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    }
  }
}

// The server has escaped the fragments, and the page's policy allows no inline script.
function replace(id, html) {
  const target = document.getElementById(id);
  target.innerHTML = html;
  localTimes(target);
}

// What is being typed stays, with the cursor in it.
function replaceActions(key, html) {
  const target = document.getElementById("actions");
  const initial = (each) => each.defaultValue ?? each.options[0]?.value;
  const typed = [...target.querySelectorAll("input[id], textarea[id], select[id]")].filter((each) => each.value !== initial(each));
  const open = [...target.querySelectorAll("details[open] > summary")].map((each) => each.textContent);
  const focused = document.activeElement && target.contains(document.activeElement) ? document.activeElement : null;
  replace("actions", html);
  target.dataset.key = key;
  for (const each of target.querySelectorAll("summary")) {
    if (open.includes(each.textContent)) each.parentElement.open = true;
  }
  for (const each of typed) {
    const successor = document.getElementById(each.id);
    if (!successor) continue;
    successor.value = each.value;
    if (each === focused) {
      successor.focus();
      if (each.selectionStart != null) successor.setSelectionRange(each.selectionStart, each.selectionEnd);
    }
  }
}

function follow(article) {
  const source = new EventSource(article.dataset.stream);
  const draft = document.getElementById("draft");
  let number = 0;
  source.addEventListener("live", (event) => replace("live", event.data));
  source.addEventListener("actions", (event) => {
    const { key, html } = JSON.parse(event.data);
    if (key !== document.getElementById("actions").dataset.key) replaceActions(key, html);
  });
  source.addEventListener("text", (event) => {
    const part = JSON.parse(event.data);
    const before = part.draft === number ? draft.textContent.slice(0, part.offset) : "";
    number = part.draft;
    draft.textContent = before + part.text;
    document.getElementById("draft-box").hidden = false;
  });
  source.addEventListener("end", () => {
    source.close();
    document.getElementById("draft-box").hidden = true;
  });
  addEventListener("pagehide", () => source.close());
}

function nameFiles(input) {
  input.addEventListener("change", () => {
    const names = [...input.files].map((file) => file.name);
    document.getElementById("chosen").textContent = names.length > 1 ? `${names.length} files: ${names.join(", ")}` : "";
  });
}

localTimes(document);
const article = document.querySelector("[data-stream]");
if (article) follow(article);
const input = document.querySelector("input.drop");
if (input) nameFiles(input);
