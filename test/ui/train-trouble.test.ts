/**
 * The form of a job where something is slow, broken or unknown: who has left is not taken back, a file is sent once, and nothing that was
 * said in an address or refused by the server is kept silent.
 */
import type { Browser, Page, Request } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createDeferred } from '#base/util/deferred.js'
import type { List } from '#contract/wire/list.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'

const ROW = JSON.stringify({
  messages: [
    { role: 'user', content: 'Is it warm?' },
    { role: 'assistant', content: 'yes' },
  ],
})
const file = (text: string) => ({ name: 'rows.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from(text) })

let service: TestService
let browser: Browser
let token: string

describe.skipIf(CHROMIUM === null)('the form of a job in trouble', () => {
  beforeAll(async () => {
    service = await createTestService({ scripted: false })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    await service.createModel('learner')
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  const open = () => openWindow(browser, `http://127.0.0.1:${new URL(service.url).port}`, { token })

  /** Keeps the answer of a POST back. @returns gives it to the page, and waits until the page has had time to take it */
  async function holdPost(page: Page, path: string): Promise<() => Promise<void>> {
    const gate = createDeferred<void>()
    const isIt = (request: Request): boolean => request.method() === 'POST' && new URL(request.url()).pathname === path
    await page.route(`**${path}`, async (route) => {
      if (!isIt(route.request())) return await route.continue()
      const response = await route.fetch()
      await gate.promise
      await route.fulfill({ response })
    })
    return async () => {
      const finished = page.waitForEvent('requestfinished', isIt)
      gate.resolve()
      await finished
      // an answer that was asked for later comes later
      await page.evaluate("fetch('/ui/').then((response) => response.text())")
    }
  }

  test('who has left stays where they are when the job starts', async () => {
    const { context, page, problems } = await open()
    await page.goto('/ui/train?kind=sft&m=tests/learner')
    await page.locator('input[type=file]').setInputFiles(file(ROW))
    await page.getByRole('button', { name: 'Show the plan' }).click()
    await page.getByText('this is what will run').waitFor()
    const release = await holdPost(page, '/v1/preview/sft-training-jobs')
    await page.getByRole('button', { name: 'Start the job' }).click()
    await page.getByRole('button', { name: 'Starting…' }).waitFor()
    await page.getByRole('link', { name: 'Settings' }).first().click()
    await page.waitForURL('**/ui/settings')
    await release()
    expect(page.url()).toMatch(/\/ui\/settings$/)
    // it started none the less
    const { body } = await service.json<List<TrainingJob>>('/v1/preview/training-jobs')
    expect(body.data).toHaveLength(1)
    expect((await service.waitForJob(body.data[0]?.id ?? '')).status).toBe('completed')
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a model is made once, and who has left stays where they are', async () => {
    const { context, page, problems } = await open()
    await page.goto('/ui/train?kind=sft&m=tests/fresh')
    const release = await holdPost(page, '/v1/preview/models')
    await page.getByRole('button', { name: 'Create the model' }).click()
    const button = page.getByRole('button', { name: 'Creating…' })
    await button.waitFor()
    expect(await button.isDisabled()).toBe(true)
    await page.getByRole('link', { name: 'Settings' }).first().click()
    await page.waitForURL('**/ui/settings')
    await release()
    expect(page.url()).toMatch(/\/ui\/settings$/)
    expect((await problems()).filter((text) => !text.includes('404'))).toEqual([])
    await context.close()
  })

  test('a large file is sent once for all of its plans, and again where the server has it no more', async () => {
    const { context, page } = await open()
    const sent: string[] = []
    page.on('request', (request) => {
      if (request.method() === 'POST') sent.push(new URL(request.url()).pathname)
    })
    const uploads = (): number => sent.filter((path) => path === '/v1/files').length
    await page.goto('/ui/train?kind=sft&m=tests/learner')
    // its first line is refused, so that nobody waits for a plan of all others
    await page.locator('input[type=file]').setInputFiles(file(`{"messages": 1}\n${`${ROW}\n`.repeat(60_000)}`))
    const plan = async (): Promise<void> => {
      const answer = page.waitForResponse('**/v1/preview/sft-training-jobs?plan=true')
      await page.getByRole('button', { name: 'Show the plan' }).click()
      await answer
      await page.getByRole('alert').filter({ hasText: 'Line 1' }).waitFor()
      await page.getByRole('button', { name: 'Show the plan' }).waitFor()
    }
    await plan()
    await plan()
    expect(uploads()).toBe(1)
    const { body: files } = await service.json<List<{ id: string }>>('/v1/files?purpose=fine-tune')
    for (const { id } of files.data)
      expect((await service.fetch(`/v1/files/${id}`, { method: 'DELETE' })).status).toBe(200)
    await page.getByRole('button', { name: 'Show the plan' }).click()
    await until(() => uploads() === 2, 'it was sent again')
    await until(() => sent.filter((path) => path.endsWith('sft-training-jobs')).length === 4, 'and planned again')
    await page.getByRole('alert').filter({ hasText: 'Line 1' }).waitFor()
    await context.close()
  })

  test('an option of the address that nobody knows is named by the plan, not left out', async () => {
    const { context, page } = await open()
    await page.goto('/ui/train?kind=sft&m=tests/learner&o.epoks=3')
    await page.locator('input[type=file]').setInputFiles(file(ROW))
    await page.getByRole('button', { name: 'Show the plan' }).click()
    await page.locator('.warnings', { hasText: 'epoks' }).waitFor()
    await context.close()
  })

  test('options are found in letters of either size', async () => {
    const { context, page } = await open()
    await page.goto('/ui/train?kind=sft&m=tests/learner')
    await page.getByText('All options:').click()
    await page.getByLabel('Find').fill('adamw')
    await page.getByLabel('weight_decay', { exact: true }).waitFor()
    await page.getByLabel('beta1').waitFor({ state: 'detached' })
    await context.close()
  })

  test('lists that cannot be read say so, with a way to ask again', async () => {
    const { context, page } = await open()
    let isBroken = true
    const broken = ['**/v1/preview/models?sort=**', '**/v1/preview/base-models', '**/v1/files?**']
    for (const [i, pattern] of broken.entries()) {
      await page.route(pattern, async (route) => {
        if (!isBroken) return await route.continue()
        const body = JSON.stringify({ error: { message: `broken ${i}`, hint: 'mend it' } })
        await route.fulfill({ status: 500, contentType: 'application/json', body })
      })
    }
    await page.goto('/ui/train?kind=sft&m=tests/learner')
    const alert = (i: number) => page.getByRole('alert').filter({ hasText: `broken ${i}` })
    await alert(0).getByText('mend it').waitFor()
    await alert(2).getByText('mend it').waitFor()
    await page.goto('/ui/train?kind=sft&m=tests/nobody')
    await alert(1).getByText('mend it').waitFor()
    isBroken = false
    await alert(1).getByRole('button', { name: 'Try again' }).click()
    await page.getByRole('option', { name: 'trainyard/tiny-random' }).first().waitFor({ state: 'attached' })
    await alert(1).waitFor({ state: 'detached' })
    await context.close()
  })
})
