/**
 * A real Chromium for tests of the page: the one of `CHROMIUM_PATH`, or of the PATH (Debian: `apt-get install chromium`). Where there is
 * none the tests skip.
 */
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'

/** Null where there is no Chromium. */
export const CHROMIUM: string | null =
  process.env['CHROMIUM_PATH'] ??
  (process.env['PATH'] ?? '')
    .split(delimiter)
    .flatMap((folder) => ['chromium', 'chromium-browser', 'google-chrome'].map((name) => join(folder, name)))
    .find(existsSync) ??
  null

if (CHROMIUM === null) console.log('tests of the page are skipped: no Chromium in CHROMIUM_PATH or the PATH')

export function launchBrowser(): Promise<Browser> {
  // a container's root has no sandbox, and a small /dev/shm
  return chromium.launch({ executablePath: CHROMIUM ?? '', args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

export interface Watched {
  readonly context: BrowserContext
  readonly page: Page
  /** Console errors, uncaught errors, refused loads, dialogs, requests to elsewhere; taken out when read. */
  problems(): Promise<readonly string[]>
}

/** A window of its own, whose faults are kept. @param options.token of a session that is signed in */
export async function openWindow(
  browser: Browser,
  url: string,
  options: {
    readonly width?: number
    readonly theme?: 'light' | 'dark'
    readonly token?: string
    /** A finger, as phones have. */
    readonly hasTouch?: boolean
  } = {},
): Promise<Watched> {
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: 900 },
    colorScheme: options.theme ?? 'light',
    hasTouch: options.hasTouch ?? false,
    baseURL: url,
  })
  context.setDefaultTimeout(60_000)
  // what runs in the page is text: the types of browsers are not those of tests
  if (options.token !== undefined) {
    const token = JSON.stringify(options.token)
    await context.addInitScript({ content: `sessionStorage.setItem('trainyard.session', ${token})` })
  }
  await context.addInitScript({
    content: `window.violations = []
      addEventListener('securitypolicyviolation', (event) =>
        window.violations.push(event.violatedDirective + ': ' + event.blockedURI))`,
  })
  const page = await context.newPage()
  const found: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') found.push(`console: ${message.text()}`)
  })
  page.on('pageerror', (error) => found.push(`uncaught: ${error.message}`))
  page.on('dialog', (dialog) => {
    found.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url())) found.push(`request: ${request.url()}`)
  })
  return {
    context,
    page,
    problems: async () => {
      const violations = await page.evaluate<string[]>('window.violations.splice(0)')
      return [...found.splice(0), ...violations.map((text) => `policy: ${text}`)]
    },
  }
}
