/**
 * Play in a real browser: tools whose results are typed in, answers of a schema, the probability of each token, settings in the address,
 * answers that break off in the middle, and the same request for other programs.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ChatRequestBody } from '#contract/wire/chat-completions.js'
import { type FaultyProxy, startFaultyProxy } from '../support/faulty-proxy.js'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const MODEL = 'trainyard/tiny-random'
const HOSTILE = '<img src=x onerror=alert(1)>'
const TOOLS = JSON.stringify([{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }])
const CALL = `<tool_call>\n{"name": "get_weather", "arguments": {"city": "${HOSTILE}"}}\n</tool_call>`
const playOf = (settings: Readonly<Record<string, string>> = {}) =>
  `/ui/play?${new URLSearchParams({ m: MODEL, ...settings }).toString()}`

let service: TestService
let browser: Browser
let token: string
let proxy: FaultyProxy

describe.skipIf(CHROMIUM === null)('Play', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    proxy = await startFaultyProxy(home())
  })
  afterAll(async () => {
    await browser?.close()
    await proxy?.stop()
    await service?.dispose()
  })

  const home = (): string => `http://127.0.0.1:${new URL(service.url).port}`
  const signedIn = (url = home()) => openWindow(browser, url, { token })

  test('a call of a tool is shown, its result typed in, and the conversation goes on with both', async () => {
    const window = await signedIn()
    const { context, page } = window
    const sent: ChatRequestBody[] = []
    page.on('request', (request) => {
      if (request.url().endsWith('/v1/chat/completions')) sent.push(request.postDataJSON() as ChatRequestBody)
    })
    await page.goto(playOf({ tools: TOOLS }))
    // the stand-in says what it was told
    await page.locator('#message').fill(CALL)
    await page.keyboard.press('Control+Enter')
    await page.locator('pre.json', { hasText: '"city": "<img' }).waitFor()
    await expectSound(window, 'play-tools')
    await page.getByLabel('Result of get_weather').fill('{"degrees": 21}')
    await page.getByRole('button', { name: 'Send the result' }).click()
    await page.locator('.answer[aria-busy=false]', { hasText: 'base:{"degrees": 21}' }).waitFor()
    expect(await page.getByLabel('Result of get_weather').count(), 'a result is given once').toBe(0)
    expect(sent).toHaveLength(2)
    expect(sent[1]?.tools).toEqual(JSON.parse(TOOLS))
    const [user, assistant, tool] = sent[1]?.messages ?? []
    expect(user).toEqual({ role: 'user', content: CALL })
    expect(assistant?.tool_calls).toHaveLength(1)
    expect(tool).toEqual({ role: 'tool', tool_call_id: assistant?.tool_calls?.[0]?.['id'], content: '{"degrees": 21}' })
    // the message before comes back whole: call and result go with it
    await page.locator('#message').focus()
    await page.keyboard.press('ArrowUp')
    expect(await page.locator('#message').inputValue()).toBe(CALL)
    expect(await page.locator('.turn').count()).toBe(0)
    await context.close()
  })

  test('each token has its probability and alternatives, by pointer and by arrows; a second answer goes on', async () => {
    const window = await signedIn()
    const { context, page } = window
    await page.goto(playOf({ logprobs: '1' }))
    await page.locator('#message').fill('One, two')
    await page.keyboard.press('Control+Enter')
    const tokens = page.getByRole('group', { name: /tokens: arrows/ })
    await tokens.waitFor()
    expect((await tokens.textContent())?.startsWith('base:One, two')).toBe(true)
    const detail = page.locator('.answer-token')
    await page.locator('[data-token="2"]').hover()
    await detail.getByText('token 2 s').waitFor()
    await page.locator('[data-token="2"]').focus()
    await page.keyboard.press('ArrowRight')
    await detail.getByText('token 3 e').waitFor()
    expect(await page.evaluate('document.activeElement.dataset.token')).toBe('3')
    expect(await detail.textContent()).toContain('p 0.607')
    expect(await detail.textContent()).toContain('instead: ~ 0.607 ^ 0.607')
    await expectSound(window, 'play-probability')
    await context.close()
  })

  test('settings are in the address, wrong ones stop the sending and say why, long ones are kept by the page alone', async () => {
    const window = await signedIn()
    const { context, page } = window
    await page.goto(playOf())
    await page.locator('summary', { hasText: 'System prompt, sampler' }).click()
    await page.getByLabel('Temperature').fill('0.5')
    await page.keyboard.press('Tab')
    await page.getByLabel('The answer is').selectOption('json_schema')
    await page.locator('#message').fill('Hello')
    await page.getByRole('alert').getByText('Schema: ').waitFor()
    expect(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled()).toBe(true)
    await page.getByLabel('JSON schema').fill('{"type": "string"}')
    await page.getByLabel('Tools, as JSON').fill(TOOLS)
    await page.keyboard.press('Tab')
    await page.getByRole('combobox', { name: /^Tools/ }).selectOption('none')
    await page.getByRole('alert').waitFor({ state: 'detached' })
    await page.reload()
    const query = new URL(page.url()).searchParams
    expect(query.get('schema')).toBe('{"type": "string"}')
    expect(await page.getByLabel('Temperature').inputValue()).toBe('0.5')
    expect(await page.getByRole('combobox', { name: /^Tools/ }).inputValue()).toBe('none')
    await expectSound(window, 'play-settings')
    await page.getByLabel('System prompt', { exact: true }).fill('long '.repeat(1000))
    await page.getByLabel('Seed').fill('1')
    await page.getByText('a reload or a link forgets it: system').waitFor()
    expect(page.url().length).toBeLessThan(4000)
    expect(await page.getByLabel('System prompt', { exact: true }).inputValue()).toContain('long long')
    await context.close()
  })

  test('an answer that is cut in the middle says so, keeps what came, and the next message goes on', async () => {
    const window = await signedIn(proxy.url)
    const { context, page } = window
    proxy.choose(({ url }) => (url === '/v1/chat/completions' ? { kind: 'cut', afterBytes: 20_000 } : null))
    await page.goto(playOf())
    await page.locator('#message').fill('SLOW FOREVER')
    await page.keyboard.press('Control+Enter')
    await page.getByRole('alert').getByText('cut in the middle').waitFor()
    const kept = (await page.locator('.answer .markdown').textContent()) ?? ''
    expect('base:SLOW FOREVER'.repeat(20).startsWith(kept)).toBe(true)
    expect(kept.length).toBeGreaterThan(0)
    proxy.choose(() => null)
    await page.locator('#message').fill('Again')
    await page.keyboard.press('Control+Enter')
    await page.locator('.answer[aria-busy=false]', { hasText: 'base:Again' }).waitFor()
    await context.close()
  })

  test('an engine that dies in the middle is told in the words of the server, with what came', async () => {
    const { context, page } = await signedIn()
    await page.goto(playOf())
    await page.locator('#message').fill('CRASH')
    await page.keyboard.press('Control+Enter')
    await page.locator('.answer').getByRole('alert').waitFor()
    expect(await page.locator('.answer .markdown').textContent()).toBe('b')
    await context.close()
  })

  test('a model of one’s own is sampled as talk is, a base model at temperature 1, and what repeats itself is ended', async () => {
    await service.json('/v1/preview/models', {
      json: { entity: 'local', project: 'talk', name: 'own', base_model: MODEL },
    })
    const { context, page } = await signedIn()
    const sent: ChatRequestBody[] = []
    page.on('request', (request) => {
      if (request.url().endsWith('/v1/chat/completions')) sent.push(request.postDataJSON() as ChatRequestBody)
    })
    await page.goto(playOf({ m: 'talk/own' }))
    await page.locator('summary', { hasText: 'temperature 0.8 · top p 0.95' }).click()
    expect(await page.getByLabel('Temperature').getAttribute('placeholder')).toBe('0.8')
    await page.locator('#message').fill('SLOW FOREVER')
    await page.keyboard.press('Control+Enter')
    await page.locator('.facts', { hasText: 'ended: it began to repeat itself' }).waitFor()
    await page.locator('summary', { hasText: 'The same in a terminal or a program' }).click()
    expect(await page.locator('.snippet').textContent(), 'which begins the same way').toBe(
      "trainyard chat talk/own --max-tokens 256 -- 'SLOW FOREVER'",
    )
    await page.getByLabel('Top p').fill('0.5')
    await page.locator('#message').fill('Hello')
    await page.keyboard.press('Control+Enter')
    await page.locator('.answer[aria-busy=false]', { hasText: 'Hello' }).waitFor()
    await page.goto(playOf())
    await page.locator('summary', { hasText: 'temperature 1 · top p 1' }).waitFor()
    await page.locator('#message').fill('Hello')
    await page.keyboard.press('Control+Enter')
    await page.locator('.answer[aria-busy=false]').waitFor()
    expect(sent.map(({ temperature, top_p }) => [temperature, top_p])).toEqual([
      [0.8, 0.95],
      [1, 0.5],
      [undefined, undefined],
    ])
    await context.close()
  })

  test('the same for other programs: what curl is given asks the same and is answered', async () => {
    const window = await signedIn()
    const { context, page } = window
    await page.goto(playOf({ system: "It's short", seed: '1', tools: TOOLS }))
    await page.locator('#message').fill("What's up?")
    await page.keyboard.press('Control+Enter')
    await page.locator('.answer[aria-busy=false]').waitFor()
    await page.locator('summary', { hasText: 'The same in a terminal or a program' }).click()
    await page.getByRole('button', { name: 'Python' }).click()
    await page.locator('.snippet', { hasText: 'from openai import OpenAI' }).waitFor()
    await expectSound(window, 'play-program')
    await page.getByRole('button', { name: 'curl' }).click()
    const command = (await page.locator('.snippet').textContent()) ?? ''
    expect(command).not.toContain(token)
    // the server is in this process: nothing may hold it up
    const { stdout } = await promisify(execFile)('bash', ['-c', `${command} -s`], {
      env: { ...process.env, TRAINYARD_API_KEY: service.apiKey },
    })
    expect((JSON.parse(stdout) as { choices: unknown[] }).choices[0]).toMatchObject({
      message: { content: "base:What's up?" },
    })
    await context.close()
  })
})
