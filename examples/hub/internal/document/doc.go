// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package document has the documents that configure the hub, in YAML or JSON. README.md of
// examples/hub describes them. Decoding is strict: an unknown or duplicate field is an error that
// names file, document and field.
package document
