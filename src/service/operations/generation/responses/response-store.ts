/**
 * Responses that were asked to be stored, for `previous_response_id` and for references to items: in memory, the newest ones
 * within a limit, until the server stops.
 */
import type { InputItem, Response } from '#contract/wire/inference/responses.js'
import type { Tenant } from '../../access/principal.js'

export interface StoredResponse {
  readonly tenant: Tenant
  readonly response: Response
  /** Items of the whole conversation up to this response, without its output. */
  readonly items: readonly InputItem[]
}

export interface ResponseStore {
  put(stored: StoredResponse): void
  /** Null for what is unknown, forgotten or another's. */
  find(tenant: Tenant, id: string): StoredResponse | null
  findItem(tenant: Tenant, itemId: string): InputItem | null
  delete(tenant: Tenant, id: string): boolean
}

/** Texts of all stored responses together, bytes, roughly; and how many there may be. */
const MAX_BYTES = 64 * 1024 ** 2
const MAX_RESPONSES = 10_000

interface Entry {
  readonly stored: StoredResponse
  readonly sizeBytes: number
}

export function createResponseStore(limits: { readonly maxBytes?: number } = {}): ResponseStore {
  const maxBytes = limits.maxBytes ?? MAX_BYTES
  // a map keeps the order of insertion: the first is the one not used for longest
  const entries = new Map<string, Entry>()
  /** Which response an item is from. */
  const owners = new Map<string, string>()
  let totalBytes = 0

  function forget(id: string, { stored, sizeBytes }: Entry): void {
    entries.delete(id)
    totalBytes -= sizeBytes
    for (const item of stored.response.output) owners.delete(item.id)
  }

  function find(tenant: Tenant, id: string): StoredResponse | null {
    const entry = entries.get(id)
    if (entry === undefined || !isSeenBy(tenant, entry.stored.tenant)) return null
    entries.delete(id)
    entries.set(id, entry)
    return entry.stored
  }

  return {
    find,
    put: (stored) => {
      // earlier items are shared with the responses they came from; those may be gone, so they count again
      const sizeBytes = 2 * (JSON.stringify(stored.items).length + JSON.stringify(stored.response).length)
      const { id, output } = stored.response
      entries.set(id, { stored, sizeBytes })
      totalBytes += sizeBytes
      for (const item of output) owners.set(item.id, id)
      for (const [oldest, entry] of entries) {
        if (totalBytes <= maxBytes && entries.size <= MAX_RESPONSES) break
        forget(oldest, entry)
      }
    },
    findItem: (tenant, itemId) => {
      const owner = find(tenant, owners.get(itemId) ?? '')
      return owner?.response.output.find(({ id }) => id === itemId) ?? null
    },
    delete: (tenant, id) => {
      const entry = entries.get(id)
      if (entry === undefined || !isSeenBy(tenant, entry.stored.tenant)) return false
      forget(id, entry)
      return true
    },
  }
}

function isSeenBy(tenant: Tenant, owner: Tenant): boolean {
  return tenant.entity === owner.entity && (tenant.project === null || tenant.project === owner.project)
}
