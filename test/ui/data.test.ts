/**
 * Data in a real browser: a file is added, looked into, its faults are said by line, it is planned with, and deleted.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const HOSTILE = '<img src=x onerror=alert(1)>'
const row = (asked: string) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: asked },
      { role: 'assistant', content: 'yes' },
    ],
  })
const GOOD = Array.from({ length: 30 }, (_, i) => row(`Is it ${i} ${HOSTILE}?`)).join('\n')
const BAD = [row('Is it warm?'), 'no JSON', row('Is it late?')].join('\n')
const file = (name: string, text: string) => ({ name, mimeType: 'application/jsonl', buffer: Buffer.from(text) })

let service: TestService
let browser: Browser
let token: string
let modelId: string

describe.skipIf(CHROMIUM === null)('the page of data', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    modelId = await service.createModel('learner')
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('a file is added, looked into, planned with and deleted; faults are said by line', async () => {
    const window = await openWindow(browser, service.url, { token })
    const { context, page, problems } = window
    await page.goto('/ui/data')
    await page.getByText('No file yet').waitFor()
    await page.locator('input[type=file]').setInputFiles(file('good.jsonl', GOOD))
    const looked = page.getByRole('region', { name: 'good.jsonl' })
    await looked.getByText(`Is it 0 ${HOSTILE}?`).waitFor()
    await looked.getByText('The first 20 rows; there are more.').waitFor()
    await page.locator('input[type=file]').setInputFiles(file('bad.jsonl', BAD))
    const bad = page.getByRole('region', { name: 'bad.jsonl' })
    await bad.getByText('This line is no JSON object.').waitFor()
    // the server says which, too
    expect(await bad.locator('.wrong[role=status]').textContent()).toMatch(/\b2\b/)
    await page.locator('tbody tr', { hasText: 'cannot be trained on' }).getByText('bad.jsonl').waitFor()
    await expectSound(window, 'data')
    await page.getByRole('link', { name: 'good.jsonl' }).click()
    await looked.getByRole('link', { name: 'Plan a job' }).click()
    await page.waitForURL(/train\?kind=sft&file=file-/)
    await page.goBack()
    await page.getByRole('link', { name: 'bad.jsonl' }).click()
    await bad.getByRole('button', { name: 'Delete…' }).click()
    await page.getByRole('button', { name: 'Delete the file' }).click()
    await page.getByRole('link', { name: 'bad.jsonl' }).waitFor({ state: 'detached' })
    const { body } = await service.json<{ data: { filename: string }[] }>('/v1/files')
    expect(body.data.map(({ filename }) => filename)).toEqual(['good.jsonl'])
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('the rows that a job trained on stand on its page as text, the first of many', async () => {
    const rows = [
      JSON.stringify({ prompt: `Is it ${HOSTILE}?`, completion: 'x'.repeat(3000), weight: 0.5 }),
      GOOD,
    ].join('\n')
    const { body } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', {
      json: {
        model_id: modelId,
        training_data_url: `data:application/jsonl;base64,${Buffer.from(rows).toString('base64')}`,
        config: { epochs: 1 },
      },
    })
    expect((await service.waitForJob(body.id)).status).toBe('completed')
    const window = await openWindow(browser, service.url, { token })
    const { context, page } = window
    await page.goto(`/ui/jobs/${body.id}`)
    const rowsOfJob = page.getByRole('region', { name: 'What it trained on' })
    await rowsOfJob.getByText('The first 8 rows are shown, there are more.').waitFor()
    await expectSound(window, 'trained-rows')
    expect(await rowsOfJob.locator('tbody tr').count()).toBe(8)
    const first = await rowsOfJob.locator('tbody tr').first().locator('td').allTextContents()
    expect(first).toEqual([`Is it ${HOSTILE}?`, `${'x'.repeat(280)}…`, '–', '0.5'])
    await context.close()
  })

  test('a file of megabytes is read only at its beginning', async () => {
    const large = Array.from({ length: 60_000 }, (_, i) => row(`Question ${i}?`)).join('\n')
    const headers = { 'content-type': 'application/octet-stream' }
    const path = '/v1/files?purpose=fine-tune&filename=large.jsonl'
    const { body } = await service.json<{ id: string }>(path, { method: 'POST', body: large, headers })
    const { context, page } = await openWindow(browser, service.url, { token })
    await page.goto(`/ui/data?file=${body.id}`)
    await page.getByText('Question 19?').waitFor()
    expect(await page.locator('.rows-of-file > li').count()).toBe(20)
    await context.close()
  })
})
