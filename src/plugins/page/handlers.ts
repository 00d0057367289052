/**
 * The page for browsers, below `/ui`: one static shell for every address of it, and the files that its build made
 * (`browser/build.js`).
 *
 * Open, as the documentation is: it holds no data, and its scripts ask the API with a session of their own. Files are chosen by the names
 * in the manifest and by no path that a request says. Where nothing was built the shell says so.
 */
import { readFile } from 'node:fs/promises'
import { NotFoundError } from '#base/errors/errors.js'
import type { RequestContext } from '#service/http/environment.js'
import { unknownPath } from '#service/http/routes/about.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import { type BuiltPage, builtFile, readBuiltPage } from './built-page.js'
import type { pageEndpoints } from './endpoints.js'
import type { ServedPage } from './plugin-pages.js'
import type { pageSettings } from './settings.js'

const ASSETS = 'assets/'
/** Names that never mean other bytes carry a hash. */
const HASHED = /-[A-Z0-9]{8}\.\w+$/
const KEPT_FOR_EVER = 'public, max-age=31536000, immutable'

/** What a browser may do with the page: run its own files and ask its own server. */
const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    'trusted-types trainyard-feed',
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
}

export function pageHandlers({
  app: { publicAddress },
  settings,
  started: pages,
}: PluginService<readonly ServedPage[], typeof pageSettings>): PluginHandlers<typeof pageEndpoints> {
  let manifest: Promise<BuiltPage | null> | null = null
  const kept = new Map<string, Promise<Buffer>>()

  function requireServed(c: RequestContext): void {
    if (!settings.ui) throw unknownPath(c.req.method, c.req.path)
  }

  /** Null where nothing was built: looked for again, for it may be now. */
  async function findManifest(): Promise<BuiltPage | null> {
    manifest ??= readBuiltPage()
    const found = await manifest
    if (found === null) manifest = null
    return found
  }

  async function answerShell(c: RequestContext): Promise<Response> {
    requireServed(c)
    const built = await findManifest()
    const prefix = new URL(publicAddress.of(c)).pathname.replace(/\/$/, '')
    return c.body(renderShell(built, prefix, pages), 200, {
      ...HEADERS,
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
    })
  }

  async function answerAsset(c: RequestContext, name: string): Promise<Response> {
    requireServed(c)
    const ofPlugin = pages.find(({ module }) => module === name)
    if (ofPlugin !== undefined) {
      const forms = { 'content-type': 'text/javascript; charset=utf-8', 'cache-control': KEPT_FOR_EVER }
      return c.body(ofPlugin.bytes, 200, { ...HEADERS, ...forms })
    }
    const files = (await findManifest())?.files ?? {}
    const file = Object.hasOwn(files, name) ? files[name] : undefined
    if (file === undefined) {
      throw new NotFoundError('not_found', `the page has no file "${name.slice(0, 100)}"`, {
        hint: 'load the page again: the server may be of another version now',
      })
    }
    const encoding = encodingOf(c.req.header('accept-encoding'))
    const path = builtFile(encoding === null ? name : `${name}.${encoding.suffix}`)
    const bytes = kept.get(path) ?? readFile(path)
    kept.set(path, bytes)
    // what could not be read this time may be the next
    bytes.catch(() => kept.delete(path))
    return c.body(new Uint8Array(await bytes), 200, {
      ...HEADERS,
      'content-type': file.type,
      'cache-control': HASHED.test(name) ? KEPT_FOR_EVER : 'no-cache',
      vary: 'Accept-Encoding',
      ...(encoding === null ? {} : { 'content-encoding': encoding.name }),
    })
  }

  return {
    'GET /ui': ({ c }) => answerShell(c),
    'GET /ui/{+path}': ({ params: { path }, c }) =>
      path.startsWith(ASSETS) ? answerAsset(c, path.slice(ASSETS.length)) : answerShell(c),
  }
}

/** The smallest form that a browser says it reads. */
function encodingOf(accepted: string | undefined): { readonly name: string; readonly suffix: string } | null {
  const names = (accepted ?? '')
    .toLowerCase()
    .split(',')
    .map((part) => part.trim())
  const reads = (name: string) =>
    names.some((part) => part === name || (part.startsWith(`${name};`) && !/;\s*q=0(?:\.0*)?$/.test(part)))
  if (reads('br')) return { name: 'br', suffix: 'br' }
  return reads('gzip') ? { name: 'gzip', suffix: 'gz' } : null
}

/** @param prefix folder that a proxy gives the server, without a slash at its end; it has no quotes of its own */
function renderShell(manifest: BuiltPage | null, prefix: string, pages: readonly ServedPage[]): string {
  const known = JSON.stringify(pages.map(({ bytes: _bytes, ...page }) => page))
  const asset = (name: string) => `${prefix}/ui/${ASSETS}${name}`
  const links = [
    ['/ui/', 'Models'],
    ['/ui/jobs', 'Jobs'],
    ['/ui/train', 'Train'],
    ['/ui/play', 'Play'],
    ['/docs', 'Documentation'],
  ].map(([path = '', title = '']) => `<li><a href="${prefix}${path}">${title}</a></li>`)
  const note =
    manifest === null
      ? '<p>The UI is not built. Run <code>npm run build</code>, then load this page again.</p>'
      : `<p class="late">The scripts of this page have not come yet. <a href="">Load again</a></p>
<noscript><p>This page needs JavaScript. The same is in the <a href="${prefix}/docs">documentation</a> of the command line and the API.</p></noscript>`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Trainyard</title>
<link rel="icon" href="data:,">
${
  manifest === null
    ? ''
    : `<link rel="stylesheet" href="${asset(manifest.style)}">
${manifest.first_load.map((name) => `<link rel="modulepreload" href="${asset(name)}">`).join('\n')}
<meta name="trainyard-feed" content="${manifest.feed}">
${pages.length === 0 ? '' : `<meta name="trainyard-plugins" content="${escapeAttribute(known)}">`}
<script type="module" src="${asset(manifest.app)}"></script>`
}
</head>
<body>
<div id="app">
<h1>Trainyard</h1>
<nav aria-label="Pages"><ul>${links.join('')}</ul></nav>
${note}
</div>
</body>
</html>
`
}

function escapeAttribute(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;')
}
