// Run one JavaScript program inside the sandbox: the counterpart of program.py, and never loaded outside.
//
// Limits are set by program.py, which turns into this. The program runs in the same process, so the host bounds and
// checks everything that comes from here. Uses Node's own modules only.
"use strict";

const fs = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");
const util = require("node:util");
const vm = require("node:vm");

const FILE = "program.js";
const VALUE_CHARACTERS = 8_000;
const ERROR_CHARACTERS = 4_000;
const FRAMES = 20;

const wellFormed = (text) => Buffer.from(text).toString();

/** Put the message last, as Python does: what is cut is cut at the beginning. */
function describe(error) {
  try {
    const stack = error instanceof Error ? String(error.stack) : `Uncaught ${util.inspect(error)}`;
    const all = stack.split("\n");
    // Node shows the line that threw, and that of its own modules is of no use.
    const lines = all[0].startsWith("node:") ? all.slice(all.indexOf("") + 1) : all;
    const isFrame = (line) => /^ +at /.test(line);
    const frames = lines.filter((line) => isFrame(line) && !/node:|program\.cjs/.test(line)).slice(0, FRAMES);
    return [...frames.reverse(), ...lines.filter((line) => !isFrame(line))].join("\n").trim().slice(-ERROR_CHARACTERS);
  } catch {
    return "an error that cannot be shown";
  }
}

function describeValue(value) {
  if (value === undefined) return "";
  try {
    return util.inspect(value, { depth: 4, maxArrayLength: 200, maxStringLength: VALUE_CHARACTERS });
  } catch {
    return "(a value that cannot be shown; print the parts you need)";
  }
}

/** Read the regular files of a folder, one level deep, following no link. */
function collect(folder, mostFiles, mostBytes) {
  const files = [];
  const leftOut = [];
  let room = mostBytes;
  for (const name of fs.readdirSync(folder).sort().slice(0, 2 * mostFiles)) {
    let content = null;
    let isFile = false;
    try {
      const flags = fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK;
      const opened = fs.openSync(path.join(folder, name), flags);
      const state = fs.fstatSync(opened);
      isFile = state.isFile();
      if (isFile && files.length < mostFiles && state.size <= room) content = fs.readFileSync(opened);
      fs.closeSync(opened);
    } catch {
      content = null;
    }
    if (content === null || content.length > room) {
      leftOut.push(`${name}: ${isFile ? "too many or too large files" : "not a regular file"}`);
      continue;
    }
    room -= content.length;
    files.push([name, content]);
  }
  return [files, leftOut];
}

function writeAll(descriptor, data) {
  let at = 0;
  while (at < data.length) at += fs.writeSync(descriptor, data, at);
}

const descriptor = Number(process.argv[2]);
const job = JSON.parse(fs.readFileSync(0, "utf8"));
let value;
let error = "";

process.chdir(job.folder);
fs.mkdirSync(job.artifacts, { recursive: true });
Object.assign(globalThis, job.variables, { require: createRequire(path.join(job.folder, FILE)) });

process.on("exit", (status) => {
  const [files, leftOut] = collect(job.artifacts, job.most_files, job.most_bytes);
  const result = {
    value: error ? "" : wellFormed(describeValue(value)).slice(0, VALUE_CHARACTERS),
    error: wellFormed(error || (status ? `process.exit: ${status}` : "")),
    files: files.map(([name, content]) => ({ name: wellFormed(name), bytes: content.length })),
    left_out: leftOut.map(wellFormed),
  };
  writeAll(descriptor, Buffer.from(`${JSON.stringify(result)}\n`));
  for (const [, content] of files) writeAll(descriptor, content);
});
process.on("uncaughtException", (thrown) => {
  error = describe(thrown) || "Error";
  process.exit(1);
});

const script = new vm.Script(job.code, {
  filename: FILE,
  importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});
const returned = script.runInThisContext();
Promise.resolve(returned).then((settled) => {
  value = settled;
});
