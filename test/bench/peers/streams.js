/**
 * Streamed chat requests over HTTP as benches send them: when each part came, and how many tokens there were.
 */

const WORDS =
  'time year people way day man thing woman life child world school state family student group country problem hand part place case week company system program question work government number night point home water room mother area money story fact month lot right study book eye job word business issue side kind head house service friend father power hour game line end member law car city community name president team minute idea body information back parent face others level office door health person art war history party result change morning reason research girl guy moment air teacher force education'.split(
    ' ',
  )

/** About so many tokens of ordinary words; another seed starts differently. */
export function textOf(tokens, seed) {
  let state = (seed * 2654435761 + 12345) >>> 0
  return Array.from({ length: tokens }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return WORDS[(state >>> 8) % WORDS.length]
  }).join(' ')
}

/**
 * One streamed answer.
 *
 * @returns `times`: of each event that carries a token, in ms; `prompt` and `completion` tokens; `startedMs`
 */
export async function stream({ url, key, model }, { text, count, ...more }) {
  const startedMs = performance.now()
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      messages: [{ role: 'user', content: text }],
      max_tokens: count,
      ignore_eos: true,
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
      ...more,
    }),
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  const times = []
  let rest = ''
  let usage = null
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const nowMs = performance.now()
    const events = (rest + chunk).split('\n\n')
    rest = events.pop() ?? ''
    for (const event of events) {
      if (event.includes('"content":"') && !event.includes('"content":""')) times.push(nowMs)
      if (event.includes('"completion_tokens"')) usage = JSON.parse(event.slice(event.indexOf('{'))).usage
    }
  }
  return { startedMs, times, prompt: usage?.prompt_tokens ?? 0, completion: usage?.completion_tokens ?? 0 }
}

/** Tokens per second of several streams from the moment all have begun. */
export function decodeRate(answers) {
  const from = Math.max(...answers.map(({ times }) => times[0]))
  const until = Math.max(...answers.map(({ times }) => times.at(-1)))
  const after = answers.reduce((sum, { times, completion }) => {
    const perEvent = completion / times.length
    return sum + times.filter((time) => time > from).length * perEvent
  }, 0)
  return after / ((until - from) / 1000)
}

/** Longest wait for a first token, in seconds. */
export function slowestStart(answers) {
  return Math.max(...answers.map(({ startedMs, times }) => times[0] - startedMs)) / 1000
}
