/**
 * Base models in a real browser: added from a hub on loopback with its progress, from a folder, refused in the server's words, and removed.
 */
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { type FakeHub, filesOf, startFakeHub } from '../support/service/fake-hub.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

let folder: string
let tiny: string
let hub: FakeHub
let service: TestService
let browser: Browser
let token: string

describe.skipIf(CHROMIUM === null)('base models on the page', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
    tiny = await ensureTinyRandomModel(folder)
    hub = await startFakeHub()
    hub.repositories.set('org/tiny', filesOf(tiny))
    service = await createTestService({ hub: { endpoint: hub.url } })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
    hub?.close()
    await rm(folder, { recursive: true, force: true, maxRetries: 20 })
  })

  test('are added from the hub and from a folder, trained from, and removed', async () => {
    const window = await openWindow(browser, service.url, { token })
    const { context, page, problems } = window
    let release = (): void => undefined
    hub.faults.hold = new Promise((resolve) => {
      release = resolve
    })
    await page.goto('/ui/settings')
    const form = page.getByRole('form', { name: 'Add a base model' })
    await form.getByLabel('Repository').fill('org/tiny')
    await form.getByRole('button', { name: 'Add' }).click()
    await page.getByRole('progressbar', { name: 'Download of org/tiny' }).waitFor()
    await expectSound(window, 'base-models')
    release()
    hub.faults.hold = null
    const item = (name: string) => page.locator('li', { has: page.locator('strong', { hasText: name }) })
    await item('org/tiny').getByText('ready').waitFor()
    await form.getByLabel('Add from').selectOption('a folder of the server')
    await form.getByRole('textbox', { name: 'Folder' }).fill('incoming-mine')
    await form.getByLabel('Called').fill('mine')
    await form.getByRole('button', { name: 'Add' }).click()
    // it is not there yet: the server says what it wants
    await form.getByRole('alert').getByText('incoming-mine').first().waitFor()
    await cp(tiny, join(service.dataDir, 'base-models', 'incoming-mine'), { recursive: true })
    await form.getByRole('button', { name: 'Add' }).click()
    await item('mine').getByText('ready').waitFor()
    const json = { project: 'tests', name: 'learner', base_model: 'org/tiny' }
    expect((await service.json('/v1/preview/models', { json })).status).toBe(200)
    await item('mine').getByRole('button', { name: 'Remove mine' }).click()
    await page.getByRole('button', { name: 'Remove the base model' }).click()
    await item('mine').waitFor({ state: 'detached' })
    // the browser logs what the server refused
    expect((await problems()).filter((text) => !text.includes('status of 4'))).toEqual([])
    await context.close()
  })
})
