/**
 * The form of a job in a real browser, with the real planner and trainer: nothing starts before its plan was seen, what starts is what was
 * planned, and what the server says of either is shown in its words.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TrainingOptions } from '#contract/wire/training/option-list.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const row = (question: string, answer: string): string =>
  JSON.stringify({
    messages: [
      { role: 'user', content: question },
      { role: 'assistant', content: answer },
    ],
  })
const EXAMPLES = [row('Is it warm?', 'yes'), row('Is it <b>cold</b>?', 'no'), row('Is it late?', 'yes')].join('\n')
const file = (name: string, text: string) => ({ name, mimeType: 'application/jsonl', buffer: Buffer.from(text) })

let service: TestService
let browser: Browser
let token: string
let home: string

describe.skipIf(CHROMIUM === null)('the form of a job', () => {
  beforeAll(async () => {
    service = await createTestService({ scripted: false })
    home = `http://127.0.0.1:${new URL(service.url).port}`
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    await service.createModel('learner')
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('a job starts only after its plan was seen, and runs with the options of the plan', async () => {
    const window = await openWindow(browser, home, { token })
    const { context, page, problems } = window
    await page.goto('/ui/train')
    const start = page.getByRole('button', { name: 'Start the job' })
    await page.getByText('choose data first').waitFor()
    await expectSound(window, 'train')
    await page.locator('input[type=file]').setInputFiles(file('rows.jsonl', EXAMPLES))
    await page.getByText('look at its plan first').waitFor()
    expect(await start.isDisabled()).toBe(true)
    await page.getByRole('button', { name: 'Show the plan' }).click()
    await page.getByRole('heading', { name: 'Plan', exact: true }).waitFor()
    // what trains is marked, and what the file says is text
    // the rows are in an order by chance
    const marked = await page.locator('.spans mark').allTextContents()
    expect(marked.map((text) => text.split('<')[0]).sort()).toEqual(['no', 'yes', 'yes'])
    expect((await page.locator('.spans').allTextContents()).join()).toContain('<b>cold</b>')
    await page.locator('.sequences summary').nth(1).click()
    await expectSound(window, 'train-plan')
    expect(await start.isDisabled()).toBe(false)
    // a plan of something else is none
    await page.getByLabel('epochs', { exact: true }).fill('2')
    await page.getByLabel('epochs', { exact: true }).press('Enter')
    await page.getByText('something was changed since').waitFor()
    expect(await start.isDisabled()).toBe(true)
    expect(new URL(page.url()).searchParams.get('o.epochs')).toBe('2')
    await page.getByRole('button', { name: 'Show the plan' }).click()
    await page.getByText('this is what will run').waitFor()
    const planned = await page.locator('.figure', { hasText: 'Gradient steps' }).locator('.big').textContent()
    await start.click()
    await page.waitForURL('**/ui/jobs/*')
    const id = page.url().split('/').at(-1) ?? ''
    const job = await service.waitForJob(id)
    expect(job.status).toBe('completed')
    expect(job.kind).toBe('sft')
    expect(String(job.num_gradient_steps)).toBe(planned)
    const { body: known } = await service.json<TrainingOptions>(
      '/v1/preview/training-options?kind=sft&base_model=trainyard/tiny-random',
    )
    const suggested = (known.data[0]?.options ?? []).filter((option) => option.suggested !== null)
    expect(suggested.length).toBeGreaterThan(0)
    expect(job.config).toEqual({
      ...Object.fromEntries(suggested.map((option) => [option.name, option.suggested])),
      epochs: 2,
    })
    // the same once more, from the job
    await page.getByRole('link', { name: 'Repeat with changes' }).click()
    await page.waitForURL('**/ui/train?**')
    expect(await page.getByLabel('epochs', { exact: true }).inputValue()).toBe('2')
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a warning of the plan leads to the option that it names, also one that was out of sight', async () => {
    const { context, page } = await openWindow(browser, home, { token })
    await page.goto('/ui/train?kind=sft&m=tests/learner&o.learning_rate=1e-9&o.min_learning_rate=1e-10')
    await page.locator('input[type=file]').setInputFiles(file('rows.jsonl', EXAMPLES))
    await page.getByRole('button', { name: 'Show the plan' }).click()
    await page.locator('.warnings').getByRole('button', { name: 'change learning_rate', exact: true }).first().click()
    expect(await page.evaluate('document.activeElement?.id')).toBe('option-learning_rate')
    await context.close()
  })

  test('groups with rewards are drawn with their advantages; one that does not train says why', async () => {
    const window = await openWindow(browser, home, { token })
    const { context, page } = window
    await page.goto('/ui/train?kind=rl&m=tests/learner')
    const groups = [sampleGroup([1, 0]), sampleGroup([1, 1])].map((group) => JSON.stringify(group)).join('\n')
    await page.locator('input[type=file]').setInputFiles(file('groups.jsonl', groups))
    await page.getByRole('button', { name: 'Show the plan' }).click()
    await page.getByText('does not train: equal rewards').waitFor()
    expect(await page.locator('.advantages svg').getAttribute('aria-label')).toBe('advantages 1, −1')
    await expectSound(window, 'train-groups')
    await page.getByRole('button', { name: 'Start the job' }).click()
    await page.waitForURL('**/ui/jobs/*')
    const job: TrainingJob = await service.waitForJob(page.url().split('/').at(-1) ?? '')
    expect([job.kind, job.status]).toEqual(['rl', 'completed'])
    await context.close()
  })

  test("rows that nobody could train on are refused in the server's words, before anything starts", async () => {
    const { context, page } = await openWindow(browser, home, { token })
    await page.goto('/ui/train?kind=sft&m=tests/learner')
    await page.locator('input[type=file]').setInputFiles(file('rows.jsonl', '{"messages": 1}'))
    await page.getByRole('button', { name: 'Show the plan' }).click()
    const alert = page.getByRole('alert')
    await alert.waitFor()
    expect(await alert.textContent()).toContain('Line 1')
    expect(await page.getByRole('button', { name: 'Start the job' }).isDisabled()).toBe(true)
    await page.goto('/ui/train?kind=rl&m=tests/learner')
    await page.locator('input[type=file]').setInputFiles(file('groups.jsonl', '{}\nnot json'))
    await page.getByRole('button', { name: 'Show the plan' }).click()
    await page.getByText('groups.jsonl:2: this line is not JSON').waitFor()
    await context.close()
  })

  test('a file that is dropped is taken; an unknown model can be made', async () => {
    const { context, page } = await openWindow(browser, home, { token })
    await page.goto('/ui/train?kind=sft&m=tests/fresh')
    await page.getByRole('button', { name: 'Create the model' }).click()
    await page.getByText('the job makes step 1').waitFor()
    await page.evaluate(`{
      const data = new DataTransfer()
      data.items.add(new File([${JSON.stringify(EXAMPLES)}], 'dropped.jsonl'))
      document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }))
    }`)
    await page.getByText('dropped.jsonl').first().waitFor()
    await page.getByText('look at its plan first').waitFor()
    await context.close()
  })

  test('who may only read sees what would start, disabled and with the reason', async () => {
    const { body } = await service.json<{ token: string }>('/v1/preview/sessions', { json: { scope: 'read' } })
    const { context, page } = await openWindow(browser, home, { token: body.token })
    await page.goto('/ui/train?kind=sft&m=tests/learner')
    await page.getByText('needs a key of scope write').first().waitFor()
    expect(await page.getByRole('button', { name: 'Start the job' }).isDisabled()).toBe(true)
    await context.close()
  })
})
