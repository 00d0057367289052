/**
 * A checkpoint is whole or it is not used: every file has the digest it was stored with, and `manifest.json`, written last,
 * names them all.
 *
 * The server keeps the same digests in its database. A checkpoint from before manifests has no such file: for it the database
 * alone says what its files must be. Knows nothing of adapters, HTTP or SQL. Messages name the checkpoint and the file, never
 * a path: they are shown to clients.
 */
import { createReadStream } from 'node:fs'
import { CheckpointError } from '#base/errors/errors.js'
import { collectContent, copyOf, type FileContent, sha256Of } from '#base/util/file-content.js'

export const MANIFEST_FILE = 'manifest.json'
/** What every checkpoint has, by the names of the PEFT library. */
export const ADAPTER_CONFIG_FILE = 'adapter_config.json'
export const ADAPTER_WEIGHTS_FILE = 'adapter_model.safetensors'
const FORMAT = 'trainyard-checkpoint/1'

/** What a file must be. */
export interface FileDigest {
  readonly sha256: string
  readonly sizeBytes: number
}

/** A stored checkpoint: how messages name it (`step 3 of model "m"`) and where its files lie, by name. */
export interface StoredCheckpoint {
  readonly checkpoint: string
  readonly files: Readonly<Record<string, { readonly path: string; readonly sha256: string }>>
}

/** How messages name a checkpoint: `step 3 of model "m"`. */
export function checkpointTitle(modelName: string, step: number): string {
  return `step ${step} of model "${modelName}"`
}

/** The manifest of these files as bytes; the same input gives the same bytes. */
export function encodeManifest(files: Readonly<Record<string, FileDigest>>): Uint8Array {
  const entries = Object.keys(files)
    .sort()
    .map((name) => [name, { sha256: files[name]?.sha256, size_bytes: files[name]?.sizeBytes }])
  return new TextEncoder().encode(
    `${JSON.stringify({ format: FORMAT, files: Object.fromEntries(entries) }, null, 2)}\n`,
  )
}

/**
 * Reads and checks the files of a checkpoint that lies on this machine.
 *
 * @returns bytes by name, without the manifest
 * @throws {CheckpointError} `checkpoint_corrupt` if a file is missing, differs from its digest or from the manifest
 */
export async function readCheckpoint({ checkpoint, files }: StoredCheckpoint): Promise<Map<string, FileContent>> {
  const contents = new Map<string, FileContent>()
  for (const [name, { path, sha256 }] of Object.entries(files)) {
    contents.set(name, assertDigest({ checkpoint, name, bytes: await readStoredFile(checkpoint, name, path), sha256 }))
  }
  return takeManifest(checkpoint, contents)
}

/** One file, not yet checked. @throws {CheckpointError} `checkpoint_corrupt` if it cannot be read */
export function readStoredFile(checkpoint: string, name: string, path: string): Promise<FileContent> {
  return collectContent(createReadStream(path)).catch((cause: unknown) => {
    throw checkpointCorrupt(checkpoint, `${name} cannot be read`, cause)
  })
}

/**
 * Checks all other files against the manifest among them, if there is one.
 *
 * @returns the files without the manifest
 * @throws {CheckpointError} `checkpoint_corrupt`
 */
export function takeManifest(checkpoint: string, contents: ReadonlyMap<string, FileContent>): Map<string, FileContent> {
  const rest = new Map(contents)
  const manifest = rest.get(MANIFEST_FILE)
  rest.delete(MANIFEST_FILE)
  if (manifest === undefined) return rest
  const listed = listedFiles(checkpoint, manifest)
  for (const [name, bytes] of rest) {
    if (listed.get(name) !== sha256Of(bytes))
      throw checkpointCorrupt(checkpoint, `${name} is not what its manifest lists`)
  }
  return rest
}

/** Returns the bytes. @throws {CheckpointError} `checkpoint_corrupt` if they do not have the digest */
export function assertDigest(file: {
  readonly checkpoint: string
  readonly name: string
  readonly bytes: FileContent
  readonly sha256: string
}): FileContent {
  if (sha256Of(file.bytes) === file.sha256) return file.bytes
  throw checkpointCorrupt(file.checkpoint, `${file.name} differs from its digest`)
}

/** The error of a damaged checkpoint: our fault, told to the client by name. */
export function checkpointCorrupt(checkpoint: string, problem: string, cause?: unknown): CheckpointError {
  return new CheckpointError('checkpoint_corrupt', `the checkpoint at ${checkpoint} is damaged: ${problem}`, {
    hint: 'restore its file from a backup of the data directory, or delete that step',
    details: { reason: 'checkpoint_corrupt', checkpoint },
    cause,
  })
}

function listedFiles(checkpoint: string, manifest: FileContent): ReadonlyMap<string, unknown> {
  try {
    const json = JSON.parse(new TextDecoder().decode(copyOf(manifest))) as {
      readonly format?: unknown
      readonly files?: Readonly<Record<string, { readonly sha256?: unknown }>>
    }
    if (json.format !== FORMAT) throw new Error(`unknown format ${JSON.stringify(json.format)}`)
    return new Map(Object.entries(json.files ?? {}).map(([name, file]) => [name, file.sha256]))
  } catch (cause) {
    throw checkpointCorrupt(checkpoint, `${MANIFEST_FILE} cannot be understood`, cause)
  }
}
