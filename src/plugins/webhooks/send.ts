/**
 * One attempt to deliver: a signed POST to a checked address. Redirects are not followed, the answer is not read beyond a little.
 */
import { createHmac } from 'node:crypto'
import { request as plainRequest, type RequestOptions } from 'node:http'
import { request as secureRequest } from 'node:https'
import { isIP } from 'node:net'
import type { AddressRules } from '#service/operations/address-rules.js'

export interface Attempt {
  readonly isDelivered: boolean
  readonly status: number | null
  readonly error: string | null
}

/** `v1,…` over id, time and body. @param secret `whsec_` and base64 */
export function signWebhook(
  secret: string,
  message: { readonly id: string; readonly timestamp: number; readonly body: string },
): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signed = `${message.id}.${message.timestamp}.${message.body}`
  return `v1,${createHmac('sha256', key).update(signed).digest('base64')}`
}

/**
 * Never throws: what went wrong stands in the attempt.
 *
 * @param options.key whose webhook it is: looking up names takes turns by it
 */
export async function sendWebhook(
  rules: AddressRules,
  webhook: { readonly url: string; readonly secret: string },
  message: { readonly id: string; readonly timestamp: number; readonly body: string },
  options: { readonly userAgent: string; readonly timeoutMs: number; readonly key: string },
): Promise<Attempt> {
  try {
    const url = rules.check(webhook.url)
    const status = await post(
      url,
      await rules.resolve(url, options.key, AbortSignal.timeout(options.timeoutMs)),
      message.body,
      options.timeoutMs,
      {
        'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(message.body)),
        'user-agent': options.userAgent,
        'webhook-id': message.id,
        'webhook-timestamp': String(message.timestamp),
        'webhook-signature': signWebhook(webhook.secret, message),
      },
    )
    const isDelivered = status >= 200 && status < 300
    return { isDelivered, status, error: isDelivered ? null : `the receiver answered ${status}` }
  } catch (error) {
    return {
      isDelivered: false,
      status: null,
      error: (error instanceof Error ? error.message : String(error)).slice(0, 500),
    }
  }
}

function post(
  url: URL,
  address: string,
  body: string,
  timeoutMs: number,
  headers: Readonly<Record<string, string>>,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const family = isIP(address)
    const options: RequestOptions = {
      method: 'POST',
      headers,
      // the address that was checked, whatever the name says by now
      lookup: (_host, wanted, done) => {
        if (wanted.all === true) done(null, [{ address, family }])
        else done(null, address, family)
      },
      agent: false,
      signal: AbortSignal.timeout(timeoutMs),
    }
    const request = (url.protocol === 'https:' ? secureRequest : plainRequest)(url, options, (response) => {
      const status = response.statusCode ?? 0
      response.destroy()
      resolve(status)
    })
    request.on('error', reject)
    request.end(body)
  })
}
