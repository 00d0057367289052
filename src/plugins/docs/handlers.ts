/**
 * `/docs` for people and `/openapi.json` for programs. Open: they say nothing that the package does not say. What makes them is
 * loaded by the first request for one.
 */
import { NotFoundError } from '#base/errors/errors.js'
import type { AppOptions, RequestContext } from '#service/http/environment.js'
import type { PluginHandlers } from '#service/plugin.js'
import type { docsEndpoints } from './endpoints.js'
import type { Documentation } from './pages.js'

/** As the document says where it is served itself. */
const OWN_SERVER = '"servers":[{"url":"/"}]'

export function docsHandlers(
  options: Pick<AppOptions, 'version' | 'publicAddress' | 'table'>,
): PluginHandlers<typeof docsEndpoints> {
  let loading: Promise<Documentation> | null = null
  const documentation = (): Promise<Documentation> => {
    loading ??= import('./pages.js').then(({ createDocumentation }) => createDocumentation(options.table))
    return loading
  }
  let openApi: string | null = null

  async function answerPage(c: RequestContext, name: string): Promise<Response> {
    const html = await (await documentation()).page(name)
    if (html === null) {
      throw new NotFoundError('not_found', `there is no page "${name.slice(0, 100)}"`, {
        hint: 'GET /docs lists the pages',
      })
    }
    const { CONTENT_SECURITY_POLICY } = await import('./page.js')
    const prefix = new URL(options.publicAddress.of(c)).pathname.replace(/\/$/, '')
    return c.body(below(prefix, html), 200, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': CONTENT_SECURITY_POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    })
  }

  return {
    'GET /openapi.json': async ({ c }) => {
      const { createOpenApiDocument } = await import('./openapi.js')
      openApi ??= JSON.stringify(createOpenApiDocument(options.table, options.version))
      const address = options.publicAddress.of(c)
      const text =
        address === new URL(c.req.url).origin
          ? openApi
          : openApi.replace(OWN_SERVER, () => `"servers":${JSON.stringify([{ url: address }])}`)
      return c.body(text, 200, { 'content-type': 'application/json' })
    },
    'GET /docs': ({ c }) => answerPage(c, ''),
    'GET /docs/pictures/{file}': async ({ params: { file }, c }) => {
      const picture = await (await documentation()).picture(file)
      if (picture === null) throw new NotFoundError('not_found', `there is no picture "${file.slice(0, 100)}"`)
      return c.body(new Uint8Array(picture.bytes), 200, {
        'content-type': picture.type,
        'x-content-type-options': 'nosniff',
      })
    },
    'GET /docs/{page}': async ({ params: { page }, c }) => {
      if (page === 'style.css') {
        const { STYLE } = await import('./page.js')
        return c.body(STYLE, 200, { 'content-type': 'text/css; charset=utf-8' })
      }
      return answerPage(c, page)
    },
  }
}

/** A page behind a proxy that gives the server a folder of its own: its links begin there. Its text has no quotes of its own. */
function below(prefix: string, html: string): string {
  return prefix === '' ? html : html.replaceAll(/ (href|src)="\//g, (_, name: string) => ` ${name}="${prefix}/`)
}
