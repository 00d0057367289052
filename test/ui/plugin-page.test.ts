/**
 * Views of plugins in a real browser: a module draws into its place and asks the API; one that is broken, or means harm, shows an error in its
 * view, and the rest of the page goes on.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { INSTALLED } from '#plugins/index.js'
import { definePlugin } from '#service/define-plugin.js'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound, withoutAxe } from './sound.js'

const GOOD = `
  export function mount(element, { api, navigate, params, query, signal }) {
    const said = document.createElement('p')
    const jobs = document.createElement('button')
    jobs.textContent = 'To the jobs'
    jobs.onclick = () => navigate('/jobs')
    element.append(said, jobs)
    signal.addEventListener('abort', () => { window.left = 'aborted' })
    api('/v1/whoami').then(({ entity }) => { said.textContent = entity + ' sees ' + (params.id ?? 'all') + (query.get('q') ?? '') })
    return () => { window.left += ' and ended' }
  }`
/** By the section that shows it: its module, and what its view says. */
const BROKEN: Readonly<Record<string, readonly [string, string]>> = {
  'No JavaScript': ['this is not JavaScript', 'SyntaxError|Unexpected'],
  Nothing: ['export const other = 1', 'its module exports no function "mount"'],
  Thrown: ['export function mount() { throw new Error("<b>no</b>") }', '<b>no</b>'],
  Rejected: ['export const mount = async (element) => { element.remove(); throw "late" }', 'late'],
  'Not found': [
    'export const mount = async (e, { api }) => { await api("/v1/no/such") }',
    'no such|not found|no endpoint',
  ],
  Imports: ['import "./other.js"\nexport const mount = () => undefined', 'import|fetch'],
}

let service: TestService
let browser: Browser
let token: string
let folder: string
const home = (): string => `http://127.0.0.1:${new URL(service.url).port}`

describe.skipIf(CHROMIUM === null)('a view of a plugin', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'trainyard-pages-'))
    mkdirSync(join(folder, 'pages'))
    const moduleOf = (name: string, source: string): URL => {
      writeFileSync(join(folder, 'pages', `${name}.js`), source)
      return pathToFileURL(join(folder, 'pages', `${name}.js`))
    }
    const good = moduleOf('good', GOOD)
    const plugin = definePlugin({
      name: 'notes',
      pages: [
        { pattern: '', section: 'Notes & "more" <i>', module: good },
        { pattern: '/one/:id', section: 'Notes & "more" <i>', module: good },
        ...Object.entries(BROKEN).map(([section, [source]], at) => ({
          ...{ pattern: `/broken-${at}`, section, module: moduleOf(`broken-${at}`, source) },
        })),
      ],
    })
    const installed = { ...INSTALLED, plugins: [...INSTALLED.plugins, plugin] }
    service = await createTestService({ installed })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
    rmSync(folder, { recursive: true, force: true })
  })

  test('stands in the navigation, draws, asks the API, leads elsewhere and ends', async () => {
    const window = await openWindow(browser, home(), { token })
    const { page } = window
    await page.goto('/ui/')
    await page.getByRole('link', { name: 'Notes & "more" <i>' }).click()
    await page.getByText('local sees all').waitFor()
    expect(new URL(page.url()).pathname).toBe('/ui/x/notes')
    await expectSound(window, 'a view of a plugin')
    await page.goto('/ui/x/notes/one/a%20b?q=!')
    await page.getByText('local sees a b!').waitFor()
    expect(await page.getByRole('link', { name: 'Notes & "more" <i>' }).getAttribute('aria-current')).toBe('page')
    await page.getByRole('button', { name: 'To the jobs' }).click()
    await page.getByRole('heading', { name: 'Jobs' }).waitFor()
    expect(await page.evaluate('window.left')).toBe('aborted and ended')
    await page.goto('/ui/x/notes/no/such')
    await page.getByText('This address shows nothing').waitFor()
    expect(withoutAxe(await window.problems())).toEqual([])
    await window.context.close()
  })

  test.each(Object.entries(BROKEN))(
    'that is broken (%s) says so in its place; the page goes on',
    async (section, [, says]) => {
      const { page, context, problems } = await openWindow(browser, home(), { token })
      await page.goto('/ui/')
      await page.getByRole('link', { name: section }).click()
      const alert = page.getByRole('alert')
      await alert.waitFor()
      expect(await alert.textContent()).toMatch(/This view of the plugin notes does not work: /)
      expect(await alert.textContent()).toMatch(new RegExp(says, 'i'))
      expect(await page.getByRole('heading', { name: section }).count()).toBe(1)
      await page.getByRole('link', { name: 'Models' }).click()
      await page.getByRole('heading', { name: 'Models' }).waitFor()
      expect((await problems()).filter((text) => text.startsWith('uncaught'))).toEqual([])
      await context.close()
    },
  )

  test('has a module that is served whole, with the policy of the page, and no other file', async () => {
    const shell = await (await fetch(`${home()}/ui/`)).text()
    const module = /x\/notes-0-[0-9A-F]{8}\.js/.exec(shell)?.[0] ?? ''
    const served = await fetch(`${home()}/ui/assets/${module}`)
    expect([served.status, await served.text()]).toEqual([200, GOOD])
    expect(served.headers.get('content-security-policy')).toContain("script-src 'self'")
    expect(served.headers.get('cache-control')).toContain('immutable')
    expect(shell).not.toContain('<i>')
    for (const other of ['x/good.js', 'x/notes-0-00000000.js', 'x/../pages/good.js']) {
      expect((await fetch(`${home()}/ui/assets/${other}`)).status).toBe(404)
    }
  })
})
