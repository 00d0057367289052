/**
 * A view of a plugin: its module draws into an element of its own. What the module throws is shown in its place; the rest of
 * the page knows nothing of it.
 */
import type { ComponentType, JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { PluginPage } from '#contract/wire/plugin-page.js'
import { go, query, route } from '../data/address.js'
import { ask, type RequestOptions } from '../data/client.js'
import { loadPluginModule } from '../data/plugin-pages.js'
import { Title } from '../parts/layout.js'

export function pluginPage(page: PluginPage): ComponentType {
  return () => <Mounted page={page} />
}

function Mounted({ page }: { readonly page: PluginPage }): JSX.Element {
  const element = useRef<HTMLDivElement>(null)
  const [problem, setProblem] = useState<string | null>(null)
  useEffect(() => {
    const leaving = new AbortController()
    let end: (() => void) | undefined
    const fail = (error: unknown): void => {
      if (!leaving.signal.aborted) setProblem(error instanceof Error ? error.message : String(error))
    }
    const mount = async (): Promise<void> => {
      const { mount: draw } = await loadPluginModule(page)
      if (element.current === null || leaving.signal.aborted) return
      const ended = await draw(element.current, {
        api: (path, options = {}) => ask(path, { ...options, signal: leaving.signal } as RequestOptions),
        navigate: (path) => go(path),
        params: route.peek().params,
        query: new URLSearchParams(query.peek()),
        signal: leaving.signal,
      })
      if (typeof ended === 'function') end = ended
      if (leaving.signal.aborted) finish()
    }
    const finish = (): void => {
      try {
        end?.()
      } catch {
        // the reader is elsewhere: nobody is shown how a view failed to end
      }
      end = undefined
    }
    mount().catch(fail)
    return () => {
      leaving.abort()
      finish()
    }
  }, [page])
  return (
    <>
      <Title text={page.section} />
      {problem !== null && (
        <div class="failure" role="alert">
          <p>
            This view of the plugin {page.plugin} does not work: {problem}
          </p>
        </div>
      )}
      <div ref={element} hidden={problem !== null} />
    </>
  )
}
