/**
 * The file of SQLite's write-ahead log, to be synced beside the event loop. SQLite makes it with the first write and keeps it while a
 * connection is open.
 *
 * A file that is removed stays open and takes every write, so each write and each sync looks whether it still has a name.
 */
import { fstatSync, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { removedWhileServed } from '../data-dir.js'

export class WriteAheadLog {
  readonly #path: string
  #file: FileHandle | null = null
  #running: Promise<void> = Promise.resolve()
  #next: Promise<void> | null = null

  constructor(path: string) {
    this.#path = path
  }

  /**
   * Resolves when all that has been committed is on the disk. One sync runs at a time: who asks meanwhile shares the next one, because
   * what was committed after a sync began may not be in it.
   *
   * @throws {StorageError} `data_dir_removed` when the file is no longer in its folder; else what the file system says, and the next call
   *   tries again
   */
  synced(): Promise<void> {
    this.#next ??= this.#running.then(() => {
      const done = this.#sync()
      this.#running = done.catch(() => undefined)
      this.#next = null
      return done
    })
    return this.#next
  }

  /**
   * Looks before a write whether the file still has a name; a sync would say so too late, when all who read see what was written.
   *
   * @throws {StorageError} `data_dir_removed`
   */
  assertNamed(): void {
    if (this.#file === null) return
    const { nlink, ino } = fstatSync(this.#file.fd)
    if (nlink > 0) return
    // some file systems count no names: then what lies there tells
    if (statSync(this.#path, { throwIfNoEntry: false })?.ino !== ino) throw removedWhileServed()
  }

  async close(): Promise<void> {
    await this.#running
    await this.#file?.close()
    this.#file = null
  }

  async #sync(): Promise<void> {
    // writable because Windows syncs no other
    this.#file ??= await open(this.#path, 'r+')
    await this.#file.datasync()
    this.assertNamed()
  }
}
