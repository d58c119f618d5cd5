// Package fingerprint computes the fingerprint of a protobuf request.
package fingerprint
