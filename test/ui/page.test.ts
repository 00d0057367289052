/**
 * The page in a real browser: signing in; a job that runs while it is watched; text that means harm.
 */
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { packageRoot } from '#base/util/package-root.js'
import type { TrainingEvent } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'

const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)<script>'
const HOSTILE_LINK = '[go](javascript:alert(3)) [on](data:text/html,x) ‮ abc'
const NAME = 'learner'

let service: TestService
let browser: Browser
let token: string
let modelId: string
let jobId: string

/** A job of the scripted worker. */
async function startJob(steps: number, delayMs = 0): Promise<string> {
  const { status, body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: {
      model_id: modelId,
      trajectory_groups: [sampleGroup()],
      experimental_config: { stand_in: { steps, delay_ms: delayMs } },
    },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.id
}

describe.skipIf(CHROMIUM === null)('the page', () => {
  beforeAll(async () => {
    service = await createTestService({ host: '0.0.0.0' })
    browser = await launchBrowser()
    const session = await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })
    expect(session.status).toBe(200)
    token = session.body.token
    modelId = await service.createModel(NAME)
    await service.createModel(HOSTILE)
    jobId = await startJob(3)
    await service.waitForJob(jobId)
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  const home = (): string => `http://127.0.0.1:${new URL(service.url).port}`
  const signedIn = (options: { width?: number; theme?: 'light' | 'dark' } = {}) =>
    openWindow(browser, home(), { ...options, token })

  test('a key signs in by keyboard alone and is not stored; a wrong one is told so; the way back is kept', async () => {
    const { context, page, problems } = await openWindow(browser, home())
    await page.goto('/ui/jobs?status=completed')
    await page.waitForURL('**/ui/sign-in?**')
    await page.locator('input[name=key]').focus()
    await page.keyboard.type('ty_wrong')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').waitFor()
    expect((await problems()).every((text) => text.includes('401'))).toBe(true)
    await page.locator('input[name=key]').fill(service.apiKey)
    await page.keyboard.press('Enter')
    await page.waitForURL('**/ui/jobs?status=completed')
    await page.getByRole('row').nth(1).waitFor()
    const stored = await page.evaluate<string>('JSON.stringify([{ ...sessionStorage }, { ...localStorage }])')
    expect(stored).not.toContain(service.apiKey)
    expect(await problems()).toEqual([])
    // signing out ends the session at the server, too
    const used = /tys_[\w-]+/.exec(stored)?.[0]
    await page.locator('header summary').click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.waitForURL('**/ui/sign-in')
    await until(async () => {
      const response = await fetch(`${home()}/v1/whoami`, { headers: { authorization: `Bearer ${used}` } })
      return response.status === 401 || null
    }, 'the session is over')
    await context.close()
  })

  test('a code in the address signs in once and leaves the address', async () => {
    const { body } = await service.json<{ code: string }>('/v1/preview/sessions/codes', { method: 'POST' })
    const first = await openWindow(browser, home())
    await first.page.goto(`/ui/#code=${body.code}`)
    await first.page.getByRole('heading', { name: 'Models' }).waitFor()
    expect(first.page.url()).not.toContain('code')
    await first.context.close()
    const second = await openWindow(browser, home())
    await second.page.goto(`/ui/#code=${body.code}`)
    await second.page.getByRole('alert').waitFor()
    await second.context.close()
  })

  test('a code of another key asks whoever is signed in; what is not taken ends', async () => {
    const key = await service.json<{ id: string; key: string }>('/v1/preview/keys', { json: { scope: 'read' } })
    const list = async () =>
      (await service.json<{ data: { id: string; key_id: string }[] }>('/v1/preview/sessions?limit=100')).body.data
    const newCode = async () => {
      const headers = { authorization: `Bearer ${key.body.key}` }
      const { body } = await service.json<{ code: string }>('/v1/preview/sessions/codes', { method: 'POST', headers })
      return body.code
    }
    // a session of its own: it ends when somebody else signs in
    const own = await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'own' } })
    const { context, page, problems } = await openWindow(browser, home(), { token: own.body.token })
    const stored = () => page.evaluate<string>('JSON.stringify([{ ...sessionStorage }, { ...localStorage }])')
    await page.goto('/ui/jobs')
    const before = await stored()
    await page.goto(`/ui/#code=${await newCode()}`)
    const question = page.getByRole('dialog', { name: 'Sign in as somebody else?' })
    await question.waitFor()
    expect(await stored()).toBe(before)
    expect((await list()).filter(({ key_id }) => key_id === key.body.id)).toHaveLength(1)
    await question.getByRole('button', { name: 'Keep' }).click()
    await until(async () => (await list()).every(({ key_id }) => key_id !== key.body.id) || null, 'it has ended')
    expect(await stored()).toBe(before)
    await page.goto('/ui/jobs')
    await page.goto(`/ui/#code=${await newCode()}`)
    await question.getByRole('button', { name: 'Sign in for local' }).click()
    await question.waitFor({ state: 'detached' })
    await until(async () => (await stored()) !== before || null, 'the other session is kept')
    const token = /tys_[\w-]+/.exec(await stored())?.[0]
    const who = await fetch(`${home()}/v1/whoami`, { headers: { authorization: `Bearer ${token}` } })
    expect(await who.json()).toMatchObject({ key_id: key.body.id, scope: 'read' })
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a session that is over leads to signing in, and back', async () => {
    const { context, page } = await openWindow(browser, home(), { token: 'tys_over' })
    await page.goto(`/ui/models/tests/${NAME}`)
    await page.waitForURL(`**/ui/sign-in?back=*${NAME}`)
    await context.close()
  })

  test('a job is watched while it runs: a reload in the middle shows the same, and no event twice', async () => {
    const id = await startJob(60, 50)
    const { context, page, problems } = await signedIn()
    await page.goto(`/ui/jobs/${id}`)
    await page.locator('.log p', { hasText: 'gradient step 5 ' }).waitFor()
    await page.reload()
    await page.locator('.log p', { hasText: 'started' }).waitFor()
    await service.waitForJob(id)
    await page.locator('.log p', { hasText: 'ended: step' }).waitFor()
    const events: TrainingEvent[] = await service.allEvents(id)
    expect(await page.locator('.log p').count()).toBe(events.length)
    expect(await page.locator('.log p', { hasText: 'gradient step 60 ' }).count()).toBe(1)
    await page.locator('.status.completed').first().waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('what happens elsewhere is seen without a reload', async () => {
    const { context, page } = await signedIn()
    await page.goto('/ui/')
    await page.locator('.live', { hasText: /^live$/ }).waitFor()
    await service.createModel('made-elsewhere')
    await page.getByRole('link', { name: 'made-elsewhere' }).waitFor()
    await context.close()
  })

  test('seven tabs on a running job leave a connection for the eighth: those that nobody sees close their streams', async () => {
    const id = await startJob(2000, 50)
    const { context, page: first } = await signedIn()
    const tabs = [first, ...(await Promise.all(Array.from({ length: 6 }, () => context.newPage())))]
    for (const tab of tabs) {
      await tab.goto(`/ui/jobs/${id}`)
      await tab.locator('.log p', { hasText: 'started' }).waitFor()
      await tab.evaluate(pretend('hidden'))
    }
    const last = await context.newPage()
    await last.goto(`/ui/jobs/${id}`)
    await last.locator('.live', { hasText: /^live$/ }).waitFor()
    await first.evaluate(pretend('visible'))
    await first.locator('.live', { hasText: /^live$/ }).waitFor()
    await service.fetch(`/v1/preview/training-jobs/${id}/cancel`, { method: 'POST' })
    await first.locator('.status.cancelled').waitFor()
    await context.close()
  })

  test('a running job is cancelled after one question, which Escape answers with no', async () => {
    const id = await startJob(400, 50)
    const { context, page } = await signedIn()
    await page.goto(`/ui/jobs/${id}`)
    const cancel = page.getByRole('button', { name: 'Cancel', exact: true })
    await cancel.click()
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await cancel.click()
    await page.getByRole('button', { name: 'Cancel the job' }).click()
    await page.locator('.status.cancelled').waitFor()
    expect((await service.json<{ status: string }>(`/v1/preview/training-jobs/${id}`)).body.status).toBe('cancelled')
    await context.close()
  })

  test('a running job is stopped and kept in one click on its page', async () => {
    const id = await startJob(2000, 50)
    const { context, page, problems } = await signedIn()
    await page.goto('/ui/')
    await page.locator('.job-line a').first().click()
    await page.getByRole('button', { name: 'Stop and keep' }).click()
    await page.locator('.status.completed').waitFor()
    const job = await service.waitForJob(id)
    expect(job.status).toBe('completed')
    expect(job.step).toBeGreaterThan(0)
    expect(job.num_gradient_steps).toBeLessThan(2000)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('keys go places, not where somebody types, and can be turned off', async () => {
    const { context, page, problems } = await signedIn()
    await page.goto('/ui/')
    await page.getByRole('heading', { name: 'Models' }).waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('gj')
    expect(await page.locator('input[type=search]').inputValue()).toBe('gj')
    await page.locator('input[type=search]').fill('')
    await page.locator('h1').click()
    await page.keyboard.press('?')
    await page.getByRole('dialog').getByText('go to jobs').waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.press('g')
    await page.keyboard.press('j')
    await page.waitForURL('**/ui/jobs')
    // the new page is where the next Tab begins
    expect(await page.evaluate('document.activeElement?.id')).toBe('content')
    await page.locator('header summary').click()
    await page.getByLabel('Single-letter keys').uncheck()
    await page.keyboard.press('Escape')
    await page.locator('h1').click()
    await page.keyboard.press('g')
    await page.keyboard.press('m')
    await page.keyboard.press('?')
    expect(page.url()).toMatch(/jobs$/)
    expect(await page.getByRole('dialog').count()).toBe(0)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('text that means harm is text: as a name, a prompt and an answer', async () => {
    const { context, page, problems } = await signedIn()
    await page.goto('/ui/')
    await page.getByText('onerror=alert(1)').first().waitFor()
    await page.goto(`/ui/models/tests/${encodeURIComponent(HOSTILE)}`)
    await page.getByRole('heading', { level: 1 }).waitFor()
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe(HOSTILE)
    await page.goto('/ui/play?m=trainyard/tiny-random')
    const parts = [
      HOSTILE,
      HOSTILE_LINK,
      '[a](http://example.com/x) ![p](http://example.com/p.png) <b>bold</b>',
      '> '.repeat(300),
    ]
    await page.locator('#message').fill(parts.join('\n\n').slice(0, 240))
    await page.keyboard.press('Control+Enter')
    // the stand-in says what it was told
    await page.locator('.answer[aria-busy=false]').waitFor()
    expect(await page.locator('.answer').textContent()).toContain('onerror=alert(1)')
    expect(await page.locator('.answer').locator('script, img, b, iframe').count()).toBe(0)
    for (const link of await page.locator('.answer a').all()) {
      expect(await link.getAttribute('href')).toMatch(/^https?:/)
      expect(await link.getAttribute('rel')).toBe('noopener noreferrer')
    }
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('two columns answer one message, each with what answered it, and differences are marked', async () => {
    const { context, page, problems } = await signedIn()
    await page.goto(`/ui/play?m=trainyard/tiny-random&m=tests/${NAME}&seed=1`)
    await page.locator('#message').fill('Hello there')
    await page.keyboard.press('Control+Enter')
    await page.locator('.answer[aria-busy=false]').nth(1).waitFor()
    const answers = page.locator('.answer')
    expect(await answers.nth(0).textContent()).toContain('Hello there')
    expect(await answers.nth(1).locator('mark').count()).toBeGreaterThan(0)
    const prints = await page.locator('.facts code').allTextContents()
    expect(new Set(prints).size).toBe(2)
    // what runs is stopped by Escape
    await page.locator('#message').fill('FOREVER')
    await page.keyboard.press('Control+Enter')
    await page.locator('.answer[aria-busy=true]').nth(1).waitFor()
    await page.keyboard.press('Escape')
    await page.getByText('stopped').nth(1).waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('who may only read sees what it cannot do, disabled and with the reason', async () => {
    const { body } = await service.json<{ token: string }>('/v1/preview/sessions', { json: { scope: 'read' } })
    const { context, page, problems } = await openWindow(browser, home(), { token: body.token })
    await page.goto(`/ui/models/tests/${NAME}/checkpoints`)
    await page.locator('header summary:has-text("read")').waitFor()
    await page.getByLabel('Choose step 2', { exact: true }).check()
    const button = page.getByRole('button', { name: 'Delete' })
    expect(await button.isDisabled()).toBe(true)
    expect(await button.getAttribute('title')).toContain('scope write')
    await page.goto('/ui/settings')
    await page.getByText('needs a key of scope admin').waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('chosen checkpoints are deleted after one question; their points stay on the curve', async () => {
    const { context, page } = await signedIn()
    await page.goto(`/ui/models/tests/${NAME}/checkpoints`)
    await page.getByLabel('Choose step 1', { exact: true }).check()
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByText('step 1').waitFor()
    await page.getByRole('button', { name: 'Delete 1 checkpoint' }).click()
    await page.getByText('1 checkpoint deleted.').waitFor()
    await page.goto(`/ui/models/tests/${NAME}`)
    await page.locator('tbody th', { hasText: /^1$/ }).waitFor()
    await context.close()
  })

  test('works on plain http by address, where a browser has no clipboard of its own', async ({ skip }) => {
    const address = Object.values(networkInterfaces())
      .flatMap((entries) => entries ?? [])
      .find(({ family, internal }) => family === 'IPv4' && !internal)?.address
    if (address === undefined) return skip('this machine has no address but loopback')
    const url = `http://${address}:${new URL(service.url).port}`
    const { context, page, problems } = await openWindow(browser, url, { token })
    await page.goto(`/ui/jobs/${jobId}`)
    await page.getByText('travels in the clear').waitFor()
    expect(await page.evaluate('isSecureContext')).toBe(false)
    await page.getByRole('button', { name: 'Copy all lines of the log' }).click()
    await page.getByText('Copied').first().waitFor()
    expect((await problems()).filter((text) => !text.includes('Cross-Origin-Opener-Policy'))).toEqual([])
    await context.close()
  })
})

test('what a first visit loads, and all scripts together, stay within their budgets', () => {
  const folder = join(packageRoot(), 'dist/ui')
  const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as {
    style: string
    first_load: string[]
    files: Record<string, { gzip_bytes: number; size_bytes: number }>
  }
  const gzip = (names: readonly string[]) =>
    names.reduce((sum, name) => sum + (manifest.files[name]?.gzip_bytes ?? 0), 0)
  const scripts = Object.keys(manifest.files).filter((name) => name.endsWith('.js'))
  expect(gzip(manifest.first_load)).toBeGreaterThan(1000)
  expect(gzip(manifest.first_load)).toBeLessThan(40_000)
  expect(gzip([manifest.style])).toBeLessThan(12_000)
  expect(gzip(scripts)).toBeLessThan(160_000)
})

/** A browser without a window never hides a tab by itself. */
function pretend(state: 'hidden' | 'visible'): string {
  return `Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))`
}
