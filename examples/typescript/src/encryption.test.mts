/** What workers have sealed can be opened here, and the other way round; sealed.json is opened by the workers' tests too. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { EncryptionCodec } from './encryption.mjs';

interface Sealed {
  key_id: string;
  key: string;
  content: string;
  sealed: string;
}

const examples = JSON.parse(readFileSync(new URL('../sealed.json', import.meta.url), 'utf8')) as Sealed[];

for (const { key_id, key, content, sealed } of examples) {
  const codec = new EncryptionCodec(new Map([[key_id, Buffer.from(key, 'base64')]]), key_id);

  test(`what a worker sealed with '${key_id}' is opened, and sealed again can be opened too`, () => {
    assert.equal(codec.open(Buffer.from(sealed, 'base64')).toString(), content);
    assert.equal(codec.open(codec.seal(Buffer.from(content))).toString(), content);
  });

  test(`no byte of what was sealed with '${key_id}' can be changed`, () => {
    const bytes = Buffer.from(sealed, 'base64');
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      assert.throws(() => codec.open(changed), `byte ${at}`);
    }
  });
}

test('what is not encrypted is refused', async () => {
  const codec = new EncryptionCodec(new Map([['one', Buffer.alloc(32)]]), 'one');
  await assert.rejects(codec.decode([{ metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('1') }]));
});
