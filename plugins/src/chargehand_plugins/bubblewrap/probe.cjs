// Try to escape from the sandbox by Node's own means; see probe.py, which tries the kernel's. Prints one line of JSON:
// the names of the escapes that worked. The self-test prepends `CANARIES`.
"use strict";

const { spawnSync } = require("node:child_process");
const dgram = require("node:dgram");
const fs = require("node:fs");
const net = require("node:net");
const { Worker } = require("node:worker_threads");

const KNOWN_ENVIRONMENT = /^(PATH|HOME|TMPDIR|LANG|TZ|PWD|MPL\w+|\w+_NUM_THREADS)$/;
const READ = [...CANARIES, "/etc/passwd", "/etc/shadow", "/root/.ssh", "/home", "/proc/1/environ", "/proc/self/root"];
const WRITE = [...CANARIES, "/", "/dev", "/dev/shm", "/usr", "/usr/lib", "/tmp", "/var/tmp", "/etc"];

const reads = (name) => (fs.statSync(name).isDirectory() ? fs.readdirSync(name) : fs.readFileSync(name)).length > 0;
const writes = (folder) => fs.writeFileSync(`${folder}/escaped`, "escaped") === undefined;
const settles = (begin) =>
  new Promise((resolve) => {
    setTimeout(resolve, 1000, false).unref();
    begin(resolve);
  });
const connects = (options) =>
  settles((resolve) => net.connect(options).on("connect", () => resolve(true)).on("error", () => resolve(false)));

const ATTEMPTS = {
  "start processes": [
    () => spawnSync(process.execPath, ["-e", ""]).status === 0,
    () => spawnSync("/bin/sh", ["-c", "true"]).status === 0,
  ],
  "open sockets": [
    () => settles((resolve) => net.createServer().on("error", () => resolve(false)).listen(0, () => resolve(true))),
    () => settles((resolve) => dgram.createSocket("udp4").on("error", () => resolve(false)).bind(0, () => resolve(true))),
    () => connects({ port: 1, host: "127.0.0.1" }),
    () => connects({ path: "/run/dbus/system_bus_socket" }),
  ],
  "read the host's files": READ.map((name) => () => reads(name)),
  "write outside its folder": WRITE.map((folder) => () => writes(folder)),
  "see the worker's environment": [() => Object.keys(process.env).some((name) => !KNOWN_ENVIRONMENT.test(name))],
  "become root": [() => process.getuid() === 0, () => process.setuid(0) === undefined],
  "take memory without end": [
    () => [...Array(64)].map(() => new Uint8Array(1 << 26)).length === 64, // 4 GB
  ],
  "not even use threads": [
    () =>
      settles((resolve) => {
        const thread = new Worker("0", { eval: true });
        thread.on("exit", (status) => resolve(status !== 0)).on("error", () => resolve(true));
      }),
  ],
};

async function works(attempt) {
  try {
    return await attempt();
  } catch {
    return false;
  }
}

(async () => {
  const escapes = [];
  for (const [name, attempts] of Object.entries(ATTEMPTS)) {
    for (const attempt of attempts) {
      if (await works(attempt)) {
        escapes.push(name);
        break;
      }
    }
  }
  console.log(JSON.stringify(escapes));
})();
