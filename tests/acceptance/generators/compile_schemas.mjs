// Compile each JSON Schema of a file {name: schema} in Ajv's strict mode; one that has components is of OpenAPI.
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";

for (const [name, schema] of Object.entries(JSON.parse(readFileSync(process.argv[2], "utf8")))) {
  const ajv = new Ajv2020({ strict: true, keywords: schema.components ? ["components", "discriminator"] : [] });
  formats.default(ajv);
  try {
    ajv.compile(schema);
  } catch (error) {
    console.error(`${name}: ${error.message}`);
    process.exitCode = 1;
  }
}
