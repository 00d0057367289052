/**
 * What of a `ForwardBackwardRequest` the server looks at before it stores it; its rows are its worker's.
 */
import { readLossRequestHead, readLossRequestPlace } from '#formats/tinker/loss-request.js'
import { type LossRead, toPlainError } from './thread-protocol.js'

/** Throws for nothing that a client sends: what is refused has its place in the order of its run all the same. */
export function readLoss(message: Uint8Array): LossRead {
  try {
    return { head: readLossRequestHead(message) }
  } catch (error) {
    return { place: readLossRequestPlace(message), refusal: toPlainError(error) }
  }
}
