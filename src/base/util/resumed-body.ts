/**
 * A file over HTTP that goes on where an earlier answer broke off (RFC 9110, section 14).
 */

/** Bytes of a file, and at which of them they begin. */
export interface ResumedBody {
  readonly parts: AsyncIterable<Uint8Array>
  readonly from: number
}

/** What asks for all bytes behind the first `from`. */
export const rangeHeaders = (from: number): Readonly<Record<string, string>> =>
  from === 0 ? {} : { range: `bytes=${from}-` }

/** Whoever knows no ranges answers 200 with all of it. */
export function readResumed(response: Response): ResumedBody {
  const start = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1]
  const from = response.status === 206 && start !== undefined ? Number(start) : 0
  return { parts: response.body ?? nothing(), from }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
