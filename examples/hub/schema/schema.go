// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package schema has the JSON Schema of the hub's documents, and the OpenAPI document of its HTTP
// API. They are generated from the types and the routes.
package schema

import _ "embed"

//go:generate go test -run ^TestGenerated$ -count=1 . -args -update

// Documents is the JSON Schema (2020-12) of documents, for editors: any document of the hub is valid.
//
//go:embed documents.json
var Documents []byte

// OpenAPI is the OpenAPI 3.1 document of the HTTP API.
//
//go:embed openapi.json
var OpenAPI []byte
