/**
 * The encryption of payloads that Chargehand's workers use: AES-256 in GCM, by keys that have names.
 *
 * Sealed bytes are `CHS1`, one byte for what was done to the content (1: compressed by zlib), the length of the key's id
 * and the id, a nonce of 12 bytes, and the content with its tag of 16. All that stands before the nonce is
 * authenticated, followed by the purpose, which is `payload`.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { deflateSync, inflateSync } from 'node:zlib';

import type { Payload, PayloadCodec } from '@temporalio/common';
import proto from '@temporalio/proto';

const MAGIC = Buffer.from('CHS1');
const PURPOSE = Buffer.from('payload');
const COMPRESSED = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const COMPRESS_FROM_BYTES = 1_024;
const MOST_BYTES = 256 * 1024 * 1024;
const KEY_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const ENCRYPTED = 'binary/encrypted';

const { Payload: PayloadMessage } = proto.temporal.api.common.v1;

/** Encrypts whole payloads with the current key, and decrypts those of any key that is listed. */
export class EncryptionCodec implements PayloadCodec {
  constructor(
    private readonly keys: ReadonlyMap<string, Buffer>,
    private readonly current: string,
  ) {
    for (const [id, key] of keys) {
      if (!KEY_ID.test(id) || key.length !== 32) throw new Error('A key has a name, and 32 bytes.');
    }
    if (!keys.has(current)) throw new Error(`CHARGEHAND_ENCRYPTION_KEY_ID names no key: ${current}`);
  }

  /** Read CHARGEHAND_ENCRYPTION_KEYS, a JSON object of base64 by key id, and CHARGEHAND_ENCRYPTION_KEY_ID. */
  static fromEnvironment(environment: NodeJS.ProcessEnv): EncryptionCodec | undefined {
    const { CHARGEHAND_ENCRYPTION_KEYS: keys, CHARGEHAND_ENCRYPTION_KEY_ID: current } = environment;
    if (!keys && !current) return undefined;
    if (!keys || !current) throw new Error('Encryption needs CHARGEHAND_ENCRYPTION_KEYS and _KEY_ID.');
    const named = Object.entries(JSON.parse(keys) as Record<string, string>);
    return new EncryptionCodec(new Map(named.map(([id, key]) => [id, Buffer.from(key, 'base64')])), current);
  }

  async encode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => ({
      metadata: { encoding: Buffer.from(ENCRYPTED), 'encryption-key-id': Buffer.from(this.current) },
      data: this.seal(Buffer.from(PayloadMessage.encode(payload).finish())),
    }));
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => {
      const encoding = payload.metadata?.['encoding'];
      if (!encoding || Buffer.from(encoding).toString() !== ENCRYPTED) {
        throw new Error('A payload is not encrypted: do the workers have the keys?');
      }
      return PayloadMessage.decode(this.open(Buffer.from(payload.data ?? [])));
    });
  }

  seal(content: Buffer): Buffer {
    const smaller = content.length >= COMPRESS_FROM_BYTES ? deflateSync(content, { level: 1 }) : content;
    const isSmaller = smaller.length < content.length;
    const id = Buffer.from(this.current);
    const header = Buffer.concat([MAGIC, Buffer.from([isSmaller ? COMPRESSED : 0, id.length]), id]);
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.key(this.current), nonce);
    cipher.setAAD(Buffer.concat([header, PURPOSE]));
    const body = Buffer.concat([cipher.update(isSmaller ? smaller : content), cipher.final()]);
    return Buffer.concat([header, nonce, body, cipher.getAuthTag()]);
  }

  open(sealed: Buffer): Buffer {
    const start = MAGIC.length + 2;
    const end = start + (sealed[start - 1] ?? 0);
    const done = sealed[MAGIC.length];
    if (!sealed.subarray(0, MAGIC.length).equals(MAGIC) || (done !== 0 && done !== COMPRESSED)) {
      throw new Error('It does not begin as encrypted content does.');
    }
    if (sealed.length < end + NONCE_BYTES + TAG_BYTES) throw new Error('Encrypted content is cut short.');
    const nonce = sealed.subarray(end, end + NONCE_BYTES);
    const key = this.key(sealed.toString('latin1', start, end));
    const cipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(Buffer.concat([sealed.subarray(0, end), PURPOSE]));
    cipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    const body = Buffer.concat([cipher.update(sealed.subarray(end + NONCE_BYTES, -TAG_BYTES)), cipher.final()]);
    return done === COMPRESSED ? inflateSync(body, { maxOutputLength: MOST_BYTES }) : body;
  }

  private key(id: string): Buffer {
    const key = this.keys.get(id);
    if (!key) throw new Error(`It is encrypted with the key '${id}', which is not listed.`);
    return key;
  }
}
