/**
 * The name by which other servers on the same database know the server of a data directory. Each start makes a new one,
 * so that what a dead process left behind is not taken for a running one's, even if the directory was copied.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { moveFile } from '#base/util/move-file.js'
import { SERVER_ID_FILE } from '../data-dir.js'

/** Of the start before; null: there was none. */
export async function readServerId(root: string): Promise<string | null> {
  const text = await readFile(join(root, SERVER_ID_FILE), 'utf8').catch(() => '')
  return /^[0-9a-f-]{36}$/.test(text.trim()) ? text.trim() : null
}

export async function writeServerId(root: string, id: string): Promise<void> {
  const path = join(root, SERVER_ID_FILE)
  await writeFile(`${path}.tmp`, `${id}\n`, { mode: 0o600, flush: true })
  await moveFile(`${path}.tmp`, path)
}
