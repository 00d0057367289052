/**
 * The client's calls about who may ask and who is told what happens: keys, sessions of browsers, addresses of downloads, events, webhooks.
 */
import type { GivenQuery } from '#contract/endpoints/table.js'
import type { Activity } from '#contract/wire/activity.js'
import * as answers from './answers.js'
import { type CallOptions, createCalls, requestOf } from './calls.js'
import { type Http, parseAnswer, sourceOf } from './http.js'
import { assertStream, readEvents } from './sse.js'
import * as watched from './watch-answers.js'

export function createAccessCalls(http: Http) {
  const { ask, list, listOf, one, plain, send } = createCalls(http)
  return {
    keys: {
      list: list('GET /v1/preview/keys', answers.pageOf(answers.apiKey)),
      get: one('GET /v1/preview/keys/{key_id}', answers.apiKey),
      /** The answer is the only one that holds the key itself. */
      create: send('POST /v1/preview/keys', answers.createdKey),
      delete: one('DELETE /v1/preview/keys/{key_id}', answers.deletion),
      /** What each asked for. */
      usage: list('GET /v1/preview/keys/usage', watched.keyUsage),
    },
    /** Sessions of browsers, which stand for a key and end with it. */
    sessions: {
      list: list('GET /v1/preview/sessions', answers.pageOf(watched.session)),
      /** The answer is the only one that holds the token. */
      create: send('POST /v1/preview/sessions', watched.createdSession),
      delete: one('DELETE /v1/preview/sessions/{session_id}', answers.deletion),
      /** A code that begins one session in a browser, and the page's address with it. */
      createCode: plain('POST /v1/preview/sessions/codes', watched.sessionCode),
      exchange: send('POST /v1/preview/sessions/exchange', watched.createdSession),
    },
    /** An address that gives a file once, without a header. */
    downloads: { create: send('POST /v1/preview/downloads', watched.download) },
    events: {
      /** What happened lately, oldest first. */
      list: list('GET /v1/preview/events', answers.pageOf(watched.activity)),
      /** What happens, until the server ends or the connection breaks; `after` goes on behind the last one seen. */
      follow: (query: GivenQuery<'GET /v1/preview/events'> = {}, call: CallOptions = {}) => followActivity(query, call),
    },
    webhooks: {
      list: list('GET /v1/preview/webhooks', answers.pageOf(answers.webhook)),
      /** The answer is the only one that holds the secret. */
      create: send('POST /v1/preview/webhooks', answers.createdWebhook),
      delete: one('DELETE /v1/preview/webhooks/{webhook_id}', answers.deletion),
      deliveries: listOf('GET /v1/preview/webhooks/{webhook_id}/deliveries', answers.pageOf(answers.webhookDelivery)),
      /** The answer is the delivery of a message that says nothing; it is sent soon. */
      test: one('POST /v1/preview/webhooks/{webhook_id}/test', answers.webhookDelivery),
      /** The answer is the new delivery; it is sent soon. */
      redeliver: (id: string, deliveryId: string, call: CallOptions = {}) =>
        ask(
          'POST /v1/preview/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver',
          answers.webhookDelivery,
          { ids: [id, deliveryId] },
          call,
        ),
    },
  }

  async function* followActivity(
    query: GivenQuery<'GET /v1/preview/events'>,
    call: CallOptions,
  ): AsyncGenerator<Activity> {
    const headers = { accept: 'text/event-stream' }
    const request = requestOf('GET /v1/preview/events', { query }, { headers, isLong: true, ...call })
    const response = await http.open(request)
    const source = sourceOf(http.baseUrl, request)
    assertStream(response, source)
    for await (const { data } of readEvents(response)) yield parseAnswer(data, { source, check: watched.activity })
  }
}
