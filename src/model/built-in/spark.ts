/**
 * `trainyard/spark`, the base model that comes with this package: where it lies, and whether it is what was published.
 *
 * A plain Hugging Face directory; `digests.json` beside the weights has the SHA-256 of every file that decides an answer.
 * `test/spark/export.js` writes it.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { InstallationError, WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { packageRoot } from '#base/util/package-root.js'
import { openByteFile, readTextFile } from '#model/weights/byte-file.js'
import { parseStrictJsonObject } from '#model/weights/strict-json.js'

/** The file that lists the others with their digests. */
export const DIGESTS_FILE = 'digests.json'

const MAX_DIGESTS_BYTES = 1_000_000
/** Without these there is no model, so a list without them is not whole. */
const REQUIRED_FILES = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json']
const HINT =
  'install the package again (npm ci, or npm install trainyard); in a git checkout: git checkout -- src/assets/spark'

/** Absolute path of the model's directory; the same from the sources, from `dist/` and in an installed package. */
export function sparkDirectory(): string {
  return join(packageRoot(), 'src', 'assets', 'spark')
}

/**
 * Checks every file of the built-in model against its published digest. Reads 11 MB once: about 10 ms.
 *
 * @param directory another copy, for tests
 * @throws {InstallationError} `built_in_model_damaged` naming the file, its digest and the expected one
 */
export async function verifySpark(directory: string = sparkDirectory()): Promise<void> {
  for (const [name, expected] of await readDigests(join(directory, DIGESTS_FILE))) {
    const path = join(directory, name)
    const actual = await digestOf(path)
    if (actual === expected) continue
    throw damaged(path, `has sha256 ${actual ?? 'none: it cannot be read'}, expected ${expected}`)
  }
}

async function readDigests(path: string): Promise<ReadonlyMap<string, string>> {
  let json: JsonObject
  try {
    json = parseStrictJsonObject(await readTextFile(path, MAX_DIGESTS_BYTES), `"${path}"`)
  } catch (error) {
    if (!(error instanceof WeightsError)) throw error
    throw damaged(path, 'is not there or is no JSON object, expected the digests of the others', error)
  }
  const digests = new Map<string, string>()
  const { files } = json
  for (const [name, digest] of isJsonObject(files) ? Object.entries(files) : []) {
    if (/^[\w-][\w.-]*$/.test(name) && typeof digest === 'string' && /^[0-9a-f]{64}$/.test(digest)) {
      digests.set(name, digest)
    } else throw damaged(path, `has the entry ${JSON.stringify({ [name]: digest })}, expected a file's name and sha256`)
  }
  const absent = REQUIRED_FILES.filter((name) => !digests.has(name))
  if (absent.length > 0) throw damaged(path, `has no sha256 of ${absent.join(', ')}`)
  return digests
}

/** Null if there is nothing to read. */
async function digestOf(path: string): Promise<string | null> {
  const file = await openByteFile(path).catch(() => null)
  if (file === null) return null
  try {
    const hash = createHash('sha256')
    await file.hashInto(hash)
    return hash.digest('hex')
  } finally {
    await file.close()
  }
}

function damaged(path: string, problem: string, cause?: unknown): InstallationError {
  return new InstallationError('built_in_model_damaged', `file "${path}" of the built-in model ${problem}`, {
    hint: HINT,
    cause,
  })
}
