// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// CodeReadOnly is the SQLSTATE of a write to a server that accepts only reads.
	CodeReadOnly = "25006"
	// codePrivileges is the SQLSTATE of a statement that the user may not run.
	codePrivileges = "42501"
)

// causes explains codes of the server, see SQLSTATE in PostgreSQL's documentation. A key may be the
// class of codes, their first two characters.
var causes = map[string]string{
	"28P01": "the server refused the password, which is wrong or missing",
	"28":    "the server refused the user, or its way to log in",
	"3D000": "the database does not exist",
	"42":    "the schema does not fit this program",
	"3F000": "the schema does not exist",
	"53100": "the server's disk is full",
	"53200": "the server is out of memory",
	"53300": "the server has no free connections",
	"53":    "the server is out of resources",
	"55P03": "another transaction has had a lock for too long",
	"57014": "the statement took too long",
	"57P01": "the server is shutting down",
	"57P02": "the server has crashed and restarts",
	"57P03": "the server is starting or shutting down",
	"57P05": "the connection was idle for too long",
	"58":    "the server cannot use its disk",
	"08":    "the connection is broken",
	"XX001": "the database is damaged",
	"XX002": "the database is damaged",
}

// Explain adds the server and the cause to an error of this package or of the driver. It returns
// nil for nil.
func (db *DB) Explain(err error) error {
	if err == nil {
		return nil
	}
	if cause := causeOf(err); cause != nil {
		return fmt.Errorf("%s: %w: %w", db.where, cause, err)
	}
	return fmt.Errorf("%s: %w", db.where, err)
}

// Diagnose is Explain for an error of a statement that succeeded before. If the error is about
// tables or privileges, it checks them as Healthy does, and the error names the missing ones.
func (db *DB) Diagnose(ctx context.Context, err error) error {
	if code := Code(err); strings.HasPrefix(code, "42") || strings.HasPrefix(code, "3F") {
		if cause := db.Healthy(ctx); cause != nil {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}
	return db.Explain(err)
}

// causeOf returns nil if the error itself is clear, or unknown.
func causeOf(err error) error {
	switch Code(err) {
	case CodeReadOnly:
		return ErrReadOnly
	case codePrivileges:
		return ErrPrivileges
	}
	if text := textOf(err); text != "" {
		return errors.New(text)
	}
	return nil
}

func textOf(err error) string {
	var certificate *tls.CertificateVerificationError
	var connect *pgconn.ConnectError
	switch code := Code(err); {
	case code != "" && causes[code] != "":
		return causes[code]
	case code != "":
		return causes[code[:2]]
	case errors.Is(err, pgconn.ErrReadOnlyConnection):
		return "no server accepts writes"
	case errors.As(err, &certificate):
		return "the certificate of the server is not trusted"
	case strings.Contains(err.Error(), "server refused TLS"):
		return "the server does not offer TLS"
	case errors.As(err, &connect):
		return "the server is unreachable"
	case Broken(err):
		return "the connection is broken"
	}
	return ""
}

// Code returns the SQLSTATE of an error, or an empty string.
func Code(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

// Broken reports whether the connection has failed, or could not be made. It is unknown whether the
// statement was executed.
func Broken(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, pgconn.ErrConnClosed), pgconn.Timeout(err):
		return true
	}
	return false
}

// Retryable reports whether the same statement may succeed soon: the connection is broken, the
// server restarts or another server becomes the primary, or another transaction has locks. A
// refused user, a full disk or a missing table need an operator.
func Retryable(err error) bool {
	switch code := Code(err); {
	case code == "":
		return Broken(err) || errors.Is(err, ErrReadOnly) || errors.Is(err, pgconn.ErrReadOnlyConnection)
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "57P"), strings.HasPrefix(code, "40"):
		return true
	default:
		return code == "53300" || code == "55P03" || code == CodeReadOnly
	}
}

// withoutSecrets returns the text of a parse error without any part of the connection string that
// may be a password.
func withoutSecrets(connString string, err error) string {
	const hidden = "it is not a valid URL: special characters in the user and password must be percent-encoded"
	if strings.HasPrefix(connString, "postgres://") || strings.HasPrefix(connString, "postgresql://") {
		if _, err := url.Parse(connString); err != nil {
			return hidden // the error quotes parts of the URL
		}
	}
	var parse *pgconn.ParseConfigError
	if !errors.As(err, &parse) {
		return "invalid settings of the pool"
	}
	text := parse.Error() // begins with the connection string, with only some passwords removed
	return text[strings.LastIndex(text, "`: ")+len("`: "):]
}
