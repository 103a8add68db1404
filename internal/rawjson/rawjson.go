// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package rawjson is the former name of [jsontext], for packages that still import it.
package rawjson

import "github.com/spokewire/sdk-go/internal/jsontext"

const (
	MaxOperations = jsontext.MaxOperations
	Object        = jsontext.Object
)

func Valid(data []byte) bool                   { return jsontext.Valid(data) }
func KindOf(data []byte) jsontext.Kind         { return jsontext.KindOf(data) }
func Open(data []byte) jsontext.Cursor         { return jsontext.Open(data) }
func Text(data []byte) (string, bool)          { return jsontext.Text(data) }
func Member(data []byte, name string) []byte   { return jsontext.Member(data, name) }
func Count(data []byte, limit int) (count int) { return jsontext.Count(data, limit) }
