/**
 * Saves a file of the API. A link can carry no header, so the server is asked for an address that gives the file once.
 */
import type { Download } from '#contract/wire/access/sessions.js'
import { ask } from './client.js'

/** @param path of a route that sends a file @param name the file is saved under @throws {ApiError} */
export async function saveFile(path: string, name: string): Promise<void> {
  const { url } = await ask<Download>('/v1/preview/downloads', { json: { path } })
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.rel = 'noreferrer'
  link.click()
}

/** Saves what the page made itself. */
export function saveBlob(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // the browser has begun by then
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
