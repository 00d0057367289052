/**
 * Keys of an S3 account: from the environment, or from a file of profiles as AWS's own programs keep it. The file is read again
 * when it changes, so keys that are renewed there are taken up.
 */
import { readFile, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '#base/environment.js'
import { InvalidRequestError } from '#base/errors/errors.js'

export interface S3Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

/** @returns what to call before each request; rejects with {InvalidRequestError} `blob_store_keys_missing` */
export function createCredentialSource(environment: Environment): () => Promise<S3Credentials> {
  const fromEnvironment = toCredentials({
    id: environment['AWS_ACCESS_KEY_ID'],
    secret: environment['AWS_SECRET_ACCESS_KEY'],
    token: environment['AWS_SESSION_TOKEN'],
  })
  if (fromEnvironment !== null) return async () => fromEnvironment
  const path = environment['AWS_SHARED_CREDENTIALS_FILE'] ?? join(homedir(), '.aws', 'credentials')
  const profile = environment['AWS_PROFILE'] ?? 'default'
  let read: { readonly mark: string; readonly credentials: S3Credentials | null } | null = null

  return async () => {
    const facts = await stat(path).catch(() => null)
    const mark = facts === null ? '' : `${facts.mtimeMs} ${facts.size} ${facts.ino}`
    if (read?.mark !== mark) {
      const text = facts === null ? '' : await readFile(path, 'utf8').catch(() => '')
      read = { mark, credentials: readProfile(text, profile) }
    }
    if (read.credentials !== null) return read.credentials
    throw new InvalidRequestError(
      'blob_store_keys_missing',
      `the blob store needs keys: neither the environment nor profile "${profile}" of "${path}" has them`,
      { hint: 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE and AWS_PROFILE' },
    )
  }
}

/** The keys of one section of an INI file. */
function readProfile(text: string, profile: string): S3Credentials | null {
  let isOurs = false
  const found = new Map<string, string>()
  for (const line of text.split(/\r?\n/)) {
    const section = /^\s*\[([^\]]*)\]/.exec(line)?.[1]
    if (section !== undefined) isOurs = section.trim() === profile
    const [, name, value] = /^\s*(aws_\w+)\s*=\s*(.*?)\s*$/.exec(line) ?? []
    if (isOurs && name !== undefined && value !== undefined) found.set(name, value)
  }
  return toCredentials({
    id: found.get('aws_access_key_id'),
    secret: found.get('aws_secret_access_key'),
    token: found.get('aws_session_token'),
  })
}

interface Parts {
  readonly id: string | undefined
  readonly secret: string | undefined
  readonly token: string | undefined
}

function toCredentials({ id = '', secret = '', token = '' }: Parts): S3Credentials | null {
  if (id === '' || secret === '') return null
  return { accessKeyId: id, secretAccessKey: secret, ...(token === '' ? {} : { sessionToken: token }) }
}
