/**
 * `/docs` for people and `/openapi.json` for programs. Open: they say nothing that the package does not say.
 */
import { NotFoundError } from '#base/errors/errors.js'
import { CONTENT_SECURITY_POLICY, STYLE } from '../docs/page.js'
import { createDocumentation } from '../docs/pages.js'
import type { AppOptions, RequestContext } from '../environment.js'
import { handlers } from '../handlers.js'
import { createOpenApiDocument } from '../openapi/document.js'

/** As the document says where it is served itself. */
const OWN_SERVER = '"servers":[{"url":"/"}]'

export function docsHandlers(options: Pick<AppOptions, 'version' | 'publicAddress' | 'table'>) {
  const documentation = createDocumentation(options.table)
  let openApi: string | null = null

  async function answerPage(c: RequestContext, name: string): Promise<Response> {
    const html = await documentation.page(name)
    if (html === null) {
      throw new NotFoundError('not_found', `there is no page "${name.slice(0, 100)}"`, {
        hint: 'GET /docs lists the pages',
      })
    }
    const prefix = new URL(options.publicAddress.of(c)).pathname.replace(/\/$/, '')
    return c.body(below(prefix, html), 200, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': CONTENT_SECURITY_POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    })
  }

  return handlers({
    'GET /openapi.json': ({ c }) => {
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
      const picture = await documentation.picture(file)
      if (picture === null) throw new NotFoundError('not_found', `there is no picture "${file.slice(0, 100)}"`)
      return c.body(new Uint8Array(picture.bytes), 200, {
        'content-type': picture.type,
        'x-content-type-options': 'nosniff',
      })
    },
    'GET /docs/{page}': async ({ params: { page }, c }) => {
      if (page === 'style.css') return c.body(STYLE, 200, { 'content-type': 'text/css; charset=utf-8' })
      return answerPage(c, page)
    },
  })
}

/** A page behind a proxy that gives the server a folder of its own: its links begin there. Its text has no quotes of its own. */
function below(prefix: string, html: string): string {
  return prefix === '' ? html : html.replaceAll(/ (href|src)="\//g, (_, name: string) => ` ${name}="${prefix}/`)
}
