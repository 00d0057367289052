/**
 * Marks in a real browser: on a trajectory and on answers of Play, by mouse and by keyboard; the page of them is sound in both themes and
 * every width, gives rows to download, and leads to a job by its plan. What readers and models wrote is text.
 */
import { readFile } from 'node:fs/promises'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { List } from '#contract/wire/list.js'
import type { Mark } from '#contract/wire/training/marks.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const HOSTILE = '<img src=x onerror=alert(1)>'

let service: TestService
let browser: Browser
let token: string
let modelId: string
let jobId: string

const home = (): string => `http://127.0.0.1:${new URL(service.url).port}`
const signedIn = () => openWindow(browser, home(), { token })
const marks = async (): Promise<readonly Mark[]> =>
  (await service.json<List<Mark>>(`/v1/preview/models/${modelId}/marks`)).body.data

function group() {
  const made = sampleGroup([1, 0, 0])
  const texts = ['What happened?', 'Oh.', 'Tell me more.']
  for (const [i, text] of texts.entries()) {
    const trajectory = (made['trajectories'] as { messages_and_choices: unknown[] }[])[i]
    const choice = trajectory?.messages_and_choices[1] as { message: { content: string } }
    choice.message.content = text
    if (trajectory !== undefined) trajectory.messages_and_choices[0] = { role: 'user', content: `I am sad. ${HOSTILE}` }
  }
  return made
}

describe.skipIf(CHROMIUM === null)('marks', () => {
  beforeAll(async () => {
    // the plan needs real children
    service = await createTestService({ scripted: false, threads: 1 })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    modelId = await service.createModel('learner')
    const json = { model_id: modelId, trajectory_groups: [group()] }
    const { status, body } = await service.json<TrainingJob>('/v1/preview/training-jobs', { json })
    expect(status, JSON.stringify(body)).toBe(200)
    jobId = body.id
    expect((await service.waitForJob(jobId)).status).toBe('completed')
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('a trajectory is marked by keyboard, edited, compared; the mark is there after a reload, and goes', async () => {
    const window = await signedIn()
    const { context, page, problems } = window
    await page.goto(`/ui/jobs/${jobId}/groups/0/0`)
    const card = page.getByRole('region', { name: 'Mark', exact: true })
    await card.getByRole('button', { name: 'Good', exact: true }).focus()
    await page.keyboard.press('Enter')
    await card.locator('[aria-pressed=true]', { hasText: 'Good' }).waitFor()
    expect(await marks()).toMatchObject([{ mark: 'good', trajectory: 0, training_job_id: jobId, edited: null }])
    await card.locator('summary').click()
    await card.getByLabel(/^Compare with/).selectOption('1')
    await card.getByLabel('Note').fill(`asks ${HOSTILE}`)
    await card.getByRole('button', { name: 'Save as good' }).click()
    await until(async () => (await marks())[0]?.pair_with === 1, 'the pair is kept')
    await page.goto(`/ui/jobs/${jobId}/groups/0/1`)
    await card.locator('summary').click()
    expect(await card.getByLabel('What it should have said').inputValue()).toBe('Oh.')
    await card.getByLabel('What it should have said').fill('Why is that?')
    await card.getByRole('button', { name: 'Save as bad, with the edit' }).click()
    await card.locator('[aria-pressed=true]', { hasText: 'Bad' }).waitFor()
    await page.reload()
    await card.locator('[aria-pressed=true]', { hasText: 'Bad' }).waitFor()
    await card.locator('summary').click()
    expect(await card.getByLabel('What it should have said').inputValue()).toBe('Why is that?')
    await expectSound(window, 'trajectory-marked')
    // a refusal is said where it was asked
    await page.goto(`/ui/jobs/${jobId}/groups/0/2`)
    await card.getByRole('button', { name: 'Bad', exact: true }).click()
    await card.getByRole('button', { name: 'Take the mark away' }).click()
    await card.getByRole('button', { name: 'Take the mark away' }).waitFor({ state: 'detached' })
    await until(async () => (await marks()).length === 2, 'the third mark is gone')
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('answers of Play are marked: of the model, and of a base model beside it, whose mark the model keeps', async () => {
    const before = (await marks()).length
    const window = await signedIn()
    const { context, page, problems } = window
    await page.goto('/ui/play?m=trainyard/tiny-random&m=tests/learner&seed=1&max=8')
    await page.locator('#message').fill('Hello')
    await page.keyboard.press('Control+Enter')
    const [base, own] = [page.getByLabel('Column 1'), page.getByLabel('Column 2')]
    await own.getByRole('button', { name: 'Good', exact: true }).click()
    await own.getByRole('link', { name: 'kept for learner' }).waitFor()
    await base.locator('.mark-form summary').click()
    await base.getByLabel('What it should have said').fill('Hello to you.')
    await base.getByRole('button', { name: 'Save as bad, with the edit' }).click()
    await base.getByRole('link', { name: 'kept for learner' }).waitFor()
    await expectSound(window, 'play-marked')
    const [second, first] = await marks()
    expect(first).toMatchObject({ source: 'chat', mark: 'good', step: 1, prompt: [{ role: 'user', content: 'Hello' }] })
    expect(second).toMatchObject({ source: 'chat', mark: 'bad', step: 0, edited: 'Hello to you.' })
    // changed, it is still one
    await own.getByRole('button', { name: 'Bad', exact: true }).click()
    await own.locator('[aria-pressed=true]', { hasText: 'Bad' }).waitFor()
    expect((await marks()).length).toBe(before + 2)
    await own.getByRole('button', { name: 'Take the mark away' }).click()
    await own.getByRole('link', { name: 'kept for learner' }).waitFor({ state: 'detached' })
    expect((await marks()).length).toBe(before + 1)
    // alone, a base model has nobody to keep it
    await page.goto('/ui/play?m=trainyard/tiny-random&seed=1&max=8')
    await page.locator('#message').fill('Hello')
    await page.keyboard.press('Control+Enter')
    await page.getByRole('button', { name: 'Good', exact: true }).click()
    await page.getByRole('alert').getByText('A base model keeps no marks.').waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('the page of marks: filters, rows to download, and a job that starts after its plan', async () => {
    const window = await signedIn()
    const { context, page, problems } = window
    await page.goto('/ui/models/tests/learner')
    await page.getByRole('link', { name: 'Marks', exact: true }).click()
    await page.waitForURL('**/models/tests/learner/marks')
    await page.getByText('should have said').first().waitFor()
    await page.getByText(`asks ${HOSTILE}`).waitFor()
    expect(await page.locator('main img').count()).toBe(0)
    await expectSound(window, 'marks')
    const waiting = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Download preferences' }).click()
    const download = await waiting
    expect(download.suggestedFilename()).toBe('marks-learner-dpo.jsonl')
    const rows = (await readFile(await download.path(), 'utf8')).trimEnd().split('\n')
    expect(rows.map((row) => Object.keys(JSON.parse(row) as object).sort())).toEqual(
      rows.map(() => ['chosen', 'prompt', 'rejected']),
    )
    await page.getByText(`${rows.length} rows of`).waitFor()
    await page.getByLabel(/^Show/).selectOption('good')
    await page.waitForURL('**/marks?only=good')
    await page.getByText('should have said').first().waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Train on examples' }).click()
    await page.waitForURL('**/ui/train?kind=sft&m=tests*')
    await page.getByRole('button', { name: 'Show the plan' }).click()
    await page.getByText('this is what will run').waitFor()
    await page.getByRole('button', { name: 'Start the job' }).click()
    await page.waitForURL('**/ui/jobs/*')
    const job = await service.waitForJob(page.url().split('/').at(-1) ?? '')
    expect([job.kind, job.status]).toEqual(['sft', 'completed'])
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('no mark yet: the page says how; who may only read sees why it cannot mark', async () => {
    await service.createModel('blank')
    const window = await signedIn()
    await window.page.goto('/ui/models/tests/blank/marks')
    await window.page.getByText('Nothing is marked.').waitFor()
    await expectSound(window, 'marks-empty')
    await window.context.close()
    const { body } = await service.json<{ token: string }>('/v1/preview/sessions', { json: { scope: 'read' } })
    const { context, page, problems } = await openWindow(browser, home(), { token: body.token })
    await page.goto(`/ui/jobs/${jobId}/groups/0/2`)
    const good = page.getByRole('button', { name: 'Good', exact: true })
    await page.locator('.mark-good[title*="needs a key of scope write"]').waitFor()
    expect(await good.isDisabled()).toBe(true)
    expect(await problems()).toEqual([])
    await context.close()
  })
})
