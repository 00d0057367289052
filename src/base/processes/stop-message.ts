/**
 * How a process of ours asks a server that it started to stop in order: where there are no signals (Windows) a message is the only way.
 */

export const STOP_MESSAGE = 'stop'

/** Listens for it, where this process has such a parent. @param stop what SIGTERM does */
export function onStopMessage(stop: () => void): void {
  if (process.channel === undefined) return
  process.on('message', (message) => {
    if (message === STOP_MESSAGE) stop()
  })
  // listening alone must not keep a finished command alive
  process.channel.unref()
}
