/**
 * What of a `ForwardBackwardRequest` the server looks at before it stores it; its rows are its worker's.
 */
import { type LossRequestHead, readLossRequestHead, readLossRequestPlace } from '#formats/training-loop/loss-request.js'
import { type PlainError, toPlainError } from '#service/bodies/thread-protocol.js'

/** The head of a request, or why it is refused and of which run it is, where it says so. */
export type LossRead =
  | { readonly head: LossRequestHead }
  | { readonly place: Pick<LossRequestHead, 'modelId' | 'seqId'> | null; readonly refusal: PlainError }

/** Throws for nothing that a client sends: what is refused has its place in the order of its run all the same. */
export function readLoss(message: Uint8Array): LossRead {
  try {
    return { head: readLossRequestHead(message) }
  } catch (error) {
    return { place: readLossRequestPlace(message), refusal: toPlainError(error) }
  }
}
