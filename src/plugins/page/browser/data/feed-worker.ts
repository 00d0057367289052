/**
 * The shared worker of the page: every window of this browser connects to it.
 */
import { serveFeed } from './feed.js'

addEventListener('connect', (event) => {
  const port = event instanceof MessageEvent ? event.ports[0] : undefined
  if (port !== undefined) serveFeed(port)
})
