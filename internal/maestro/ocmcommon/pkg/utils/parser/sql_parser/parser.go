// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package sql_parser replaces a package that Maestro imports: its module, ocm-common v0.0.35, could
// not be downloaded. Maestro uses it only for lists over REST that search in JSON columns.
package sql_parser

import "errors"

// Parser parses the search of a list.
type Parser struct{}

// NewSQLParser returns a parser.
func NewSQLParser() Parser { return Parser{} }

// Parse returns an error.
func (Parser) Parse(string) (sql string, values any, err error) {
	return "", nil, errors.New("this build of Maestro does not search in JSON columns")
}
