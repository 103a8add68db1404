// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpapi is the hub's HTTP API. API.md in examples/hub describes it, and [Routes] lists the
// requests. The OpenAPI document, at /api/openapi.json and in examples/hub/schema, is generated from
// them. Package status has the types of the responses.
package httpapi
