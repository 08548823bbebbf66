"""Has as many branches as recursion has levels."""

import torch
import triton
import triton.language as tl


def choose(n):
    if n == 0:
        return 1
    elif n == 1:
        return 1
    elif n == 2:
        return 2
    elif n == 3:
        return 3
    elif n == 4:
        return 4
    elif n == 5:
        return 5
    elif n == 6:
        return 6
    elif n == 7:
        return 7
    elif n == 8:
        return 8
    elif n == 9:
        return 9
    elif n == 10:
        return 10
    elif n == 11:
        return 11
    elif n == 12:
        return 12
    elif n == 13:
        return 13
    elif n == 14:
        return 14
    elif n == 15:
        return 15
    elif n == 16:
        return 16
    elif n == 17:
        return 17
    elif n == 18:
        return 18
    elif n == 19:
        return 19
    elif n == 20:
        return 20
    elif n == 21:
        return 21
    elif n == 22:
        return 22
    elif n == 23:
        return 23
    elif n == 24:
        return 24
    elif n == 25:
        return 25
    elif n == 26:
        return 26
    elif n == 27:
        return 27
    elif n == 28:
        return 28
    elif n == 29:
        return 29
    elif n == 30:
        return 30
    elif n == 31:
        return 31
    elif n == 32:
        return 32
    elif n == 33:
        return 33
    elif n == 34:
        return 34
    elif n == 35:
        return 35
    elif n == 36:
        return 36
    elif n == 37:
        return 37
    elif n == 38:
        return 38
    elif n == 39:
        return 39
    elif n == 40:
        return 40
    elif n == 41:
        return 41
    elif n == 42:
        return 42
    elif n == 43:
        return 43
    elif n == 44:
        return 44
    elif n == 45:
        return 45
    elif n == 46:
        return 46
    elif n == 47:
        return 47
    elif n == 48:
        return 48
    elif n == 49:
        return 49
    elif n == 50:
        return 50
    elif n == 51:
        return 51
    elif n == 52:
        return 52
    elif n == 53:
        return 53
    elif n == 54:
        return 54
    elif n == 55:
        return 55
    elif n == 56:
        return 56
    elif n == 57:
        return 57
    elif n == 58:
        return 58
    elif n == 59:
        return 59
    elif n == 60:
        return 60
    elif n == 61:
        return 61
    elif n == 62:
        return 62
    elif n == 63:
        return 63
    elif n == 64:
        return 64
    elif n == 65:
        return 65
    elif n == 66:
        return 66
    elif n == 67:
        return 67
    elif n == 68:
        return 68
    elif n == 69:
        return 69
    elif n == 70:
        return 70
    elif n == 71:
        return 71
    elif n == 72:
        return 72
    elif n == 73:
        return 73
    elif n == 74:
        return 74
    elif n == 75:
        return 75
    elif n == 76:
        return 76
    elif n == 77:
        return 77
    elif n == 78:
        return 78
    elif n == 79:
        return 79
    elif n == 80:
        return 80
    elif n == 81:
        return 81
    elif n == 82:
        return 82
    elif n == 83:
        return 83
    elif n == 84:
        return 84
    elif n == 85:
        return 85
    elif n == 86:
        return 86
    elif n == 87:
        return 87
    elif n == 88:
        return 88
    elif n == 89:
        return 89
    elif n == 90:
        return 90
    elif n == 91:
        return 91
    elif n == 92:
        return 92
    elif n == 93:
        return 93
    elif n == 94:
        return 94
    elif n == 95:
        return 95
    elif n == 96:
        return 96
    elif n == 97:
        return 97
    elif n == 98:
        return 98
    elif n == 99:
        return 99
    elif n == 100:
        return 100
    elif n == 101:
        return 101
    elif n == 102:
        return 102
    elif n == 103:
        return 103
    elif n == 104:
        return 104
    elif n == 105:
        return 105
    elif n == 106:
        return 106
    elif n == 107:
        return 107
    elif n == 108:
        return 108
    elif n == 109:
        return 109
    elif n == 110:
        return 110
    elif n == 111:
        return 111
    elif n == 112:
        return 112
    elif n == 113:
        return 113
    elif n == 114:
        return 114
    elif n == 115:
        return 115
    elif n == 116:
        return 116
    elif n == 117:
        return 117
    elif n == 118:
        return 118
    elif n == 119:
        return 119
    elif n == 120:
        return 120
    elif n == 121:
        return 121
    elif n == 122:
        return 122
    elif n == 123:
        return 123
    elif n == 124:
        return 124
    elif n == 125:
        return 125
    elif n == 126:
        return 126
    elif n == 127:
        return 127
    elif n == 128:
        return 128
    elif n == 129:
        return 129
    elif n == 130:
        return 130
    elif n == 131:
        return 131
    elif n == 132:
        return 132
    elif n == 133:
        return 133
    elif n == 134:
        return 134
    elif n == 135:
        return 135
    elif n == 136:
        return 136
    elif n == 137:
        return 137
    elif n == 138:
        return 138
    elif n == 139:
        return 139
    elif n == 140:
        return 140
    elif n == 141:
        return 141
    elif n == 142:
        return 142
    elif n == 143:
        return 143
    elif n == 144:
        return 144
    elif n == 145:
        return 145
    elif n == 146:
        return 146
    elif n == 147:
        return 147
    elif n == 148:
        return 148
    elif n == 149:
        return 149
    elif n == 150:
        return 150
    elif n == 151:
        return 151
    elif n == 152:
        return 152
    elif n == 153:
        return 153
    elif n == 154:
        return 154
    elif n == 155:
        return 155
    elif n == 156:
        return 156
    elif n == 157:
        return 157
    elif n == 158:
        return 158
    elif n == 159:
        return 159
    elif n == 160:
        return 160
    elif n == 161:
        return 161
    elif n == 162:
        return 162
    elif n == 163:
        return 163
    elif n == 164:
        return 164
    elif n == 165:
        return 165
    elif n == 166:
        return 166
    elif n == 167:
        return 167
    elif n == 168:
        return 168
    elif n == 169:
        return 169
    elif n == 170:
        return 170
    elif n == 171:
        return 171
    elif n == 172:
        return 172
    elif n == 173:
        return 173
    elif n == 174:
        return 174
    elif n == 175:
        return 175
    elif n == 176:
        return 176
    elif n == 177:
        return 177
    elif n == 178:
        return 178
    elif n == 179:
        return 179
    elif n == 180:
        return 180
    elif n == 181:
        return 181
    elif n == 182:
        return 182
    elif n == 183:
        return 183
    elif n == 184:
        return 184
    elif n == 185:
        return 185
    elif n == 186:
        return 186
    elif n == 187:
        return 187
    elif n == 188:
        return 188
    elif n == 189:
        return 189
    elif n == 190:
        return 190
    elif n == 191:
        return 191
    elif n == 192:
        return 192
    elif n == 193:
        return 193
    elif n == 194:
        return 194
    elif n == 195:
        return 195
    elif n == 196:
        return 196
    elif n == 197:
        return 197
    elif n == 198:
        return 198
    elif n == 199:
        return 199
    elif n == 200:
        return 200
    elif n == 201:
        return 201
    elif n == 202:
        return 202
    elif n == 203:
        return 203
    elif n == 204:
        return 204
    elif n == 205:
        return 205
    elif n == 206:
        return 206
    elif n == 207:
        return 207
    elif n == 208:
        return 208
    elif n == 209:
        return 209
    elif n == 210:
        return 210
    elif n == 211:
        return 211
    elif n == 212:
        return 212
    elif n == 213:
        return 213
    elif n == 214:
        return 214
    elif n == 215:
        return 215
    elif n == 216:
        return 216
    elif n == 217:
        return 217
    elif n == 218:
        return 218
    elif n == 219:
        return 219
    elif n == 220:
        return 220
    elif n == 221:
        return 221
    elif n == 222:
        return 222
    elif n == 223:
        return 223
    elif n == 224:
        return 224
    elif n == 225:
        return 225
    elif n == 226:
        return 226
    elif n == 227:
        return 227
    elif n == 228:
        return 228
    elif n == 229:
        return 229
    elif n == 230:
        return 230
    elif n == 231:
        return 231
    elif n == 232:
        return 232
    elif n == 233:
        return 233
    elif n == 234:
        return 234
    elif n == 235:
        return 235
    elif n == 236:
        return 236
    elif n == 237:
        return 237
    elif n == 238:
        return 238
    elif n == 239:
        return 239
    elif n == 240:
        return 240
    elif n == 241:
        return 241
    elif n == 242:
        return 242
    elif n == 243:
        return 243
    elif n == 244:
        return 244
    elif n == 245:
        return 245
    elif n == 246:
        return 246
    elif n == 247:
        return 247
    elif n == 248:
        return 248
    elif n == 249:
        return 249
    elif n == 250:
        return 250
    elif n == 251:
        return 251
    elif n == 252:
        return 252
    elif n == 253:
        return 253
    elif n == 254:
        return 254
    elif n == 255:
        return 255
    elif n == 256:
        return 256
    elif n == 257:
        return 257
    elif n == 258:
        return 258
    elif n == 259:
        return 259
    elif n == 260:
        return 260
    elif n == 261:
        return 261
    elif n == 262:
        return 262
    elif n == 263:
        return 263
    elif n == 264:
        return 264
    elif n == 265:
        return 265
    elif n == 266:
        return 266
    elif n == 267:
        return 267
    elif n == 268:
        return 268
    elif n == 269:
        return 269
    elif n == 270:
        return 270
    elif n == 271:
        return 271
    elif n == 272:
        return 272
    elif n == 273:
        return 273
    elif n == 274:
        return 274
    elif n == 275:
        return 275
    elif n == 276:
        return 276
    elif n == 277:
        return 277
    elif n == 278:
        return 278
    elif n == 279:
        return 279
    elif n == 280:
        return 280
    elif n == 281:
        return 281
    elif n == 282:
        return 282
    elif n == 283:
        return 283
    elif n == 284:
        return 284
    elif n == 285:
        return 285
    elif n == 286:
        return 286
    elif n == 287:
        return 287
    elif n == 288:
        return 288
    elif n == 289:
        return 289
    elif n == 290:
        return 290
    elif n == 291:
        return 291
    elif n == 292:
        return 292
    elif n == 293:
        return 293
    elif n == 294:
        return 294
    elif n == 295:
        return 295
    elif n == 296:
        return 296
    elif n == 297:
        return 297
    elif n == 298:
        return 298
    elif n == 299:
        return 299
    elif n == 300:
        return 300
    elif n == 301:
        return 301
    elif n == 302:
        return 302
    elif n == 303:
        return 303
    elif n == 304:
        return 304
    elif n == 305:
        return 305
    elif n == 306:
        return 306
    elif n == 307:
        return 307
    elif n == 308:
        return 308
    elif n == 309:
        return 309
    elif n == 310:
        return 310
    elif n == 311:
        return 311
    elif n == 312:
        return 312
    elif n == 313:
        return 313
    elif n == 314:
        return 314
    elif n == 315:
        return 315
    elif n == 316:
        return 316
    elif n == 317:
        return 317
    elif n == 318:
        return 318
    elif n == 319:
        return 319
    elif n == 320:
        return 320
    elif n == 321:
        return 321
    elif n == 322:
        return 322
    elif n == 323:
        return 323
    elif n == 324:
        return 324
    elif n == 325:
        return 325
    elif n == 326:
        return 326
    elif n == 327:
        return 327
    elif n == 328:
        return 328
    elif n == 329:
        return 329
    elif n == 330:
        return 330
    elif n == 331:
        return 331
    elif n == 332:
        return 332
    elif n == 333:
        return 333
    elif n == 334:
        return 334
    elif n == 335:
        return 335
    elif n == 336:
        return 336
    elif n == 337:
        return 337
    elif n == 338:
        return 338
    elif n == 339:
        return 339
    elif n == 340:
        return 340
    elif n == 341:
        return 341
    elif n == 342:
        return 342
    elif n == 343:
        return 343
    elif n == 344:
        return 344
    elif n == 345:
        return 345
    elif n == 346:
        return 346
    elif n == 347:
        return 347
    elif n == 348:
        return 348
    elif n == 349:
        return 349
    elif n == 350:
        return 350
    elif n == 351:
        return 351
    elif n == 352:
        return 352
    elif n == 353:
        return 353
    elif n == 354:
        return 354
    elif n == 355:
        return 355
    elif n == 356:
        return 356
    elif n == 357:
        return 357
    elif n == 358:
        return 358
    elif n == 359:
        return 359
    elif n == 360:
        return 360
    elif n == 361:
        return 361
    elif n == 362:
        return 362
    elif n == 363:
        return 363
    elif n == 364:
        return 364
    elif n == 365:
        return 365
    elif n == 366:
        return 366
    elif n == 367:
        return 367
    elif n == 368:
        return 368
    elif n == 369:
        return 369
    elif n == 370:
        return 370
    elif n == 371:
        return 371
    elif n == 372:
        return 372
    elif n == 373:
        return 373
    elif n == 374:
        return 374
    elif n == 375:
        return 375
    elif n == 376:
        return 376
    elif n == 377:
        return 377
    elif n == 378:
        return 378
    elif n == 379:
        return 379
    elif n == 380:
        return 380
    elif n == 381:
        return 381
    elif n == 382:
        return 382
    elif n == 383:
        return 383
    elif n == 384:
        return 384
    elif n == 385:
        return 385
    elif n == 386:
        return 386
    elif n == 387:
        return 387
    elif n == 388:
        return 388
    elif n == 389:
        return 389
    elif n == 390:
        return 390
    elif n == 391:
        return 391
    elif n == 392:
        return 392
    elif n == 393:
        return 393
    elif n == 394:
        return 394
    elif n == 395:
        return 395
    elif n == 396:
        return 396
    elif n == 397:
        return 397
    elif n == 398:
        return 398
    elif n == 399:
        return 399
    elif n == 400:
        return 400
    elif n == 401:
        return 401
    elif n == 402:
        return 402
    elif n == 403:
        return 403
    elif n == 404:
        return 404
    elif n == 405:
        return 405
    elif n == 406:
        return 406
    elif n == 407:
        return 407
    elif n == 408:
        return 408
    elif n == 409:
        return 409
    elif n == 410:
        return 410
    elif n == 411:
        return 411
    elif n == 412:
        return 412
    elif n == 413:
        return 413
    elif n == 414:
        return 414
    elif n == 415:
        return 415
    elif n == 416:
        return 416
    elif n == 417:
        return 417
    elif n == 418:
        return 418
    elif n == 419:
        return 419
    elif n == 420:
        return 420
    elif n == 421:
        return 421
    elif n == 422:
        return 422
    elif n == 423:
        return 423
    elif n == 424:
        return 424
    elif n == 425:
        return 425
    elif n == 426:
        return 426
    elif n == 427:
        return 427
    elif n == 428:
        return 428
    elif n == 429:
        return 429
    elif n == 430:
        return 430
    elif n == 431:
        return 431
    elif n == 432:
        return 432
    elif n == 433:
        return 433
    elif n == 434:
        return 434
    elif n == 435:
        return 435
    elif n == 436:
        return 436
    elif n == 437:
        return 437
    elif n == 438:
        return 438
    elif n == 439:
        return 439
    elif n == 440:
        return 440
    elif n == 441:
        return 441
    elif n == 442:
        return 442
    elif n == 443:
        return 443
    elif n == 444:
        return 444
    elif n == 445:
        return 445
    elif n == 446:
        return 446
    elif n == 447:
        return 447
    elif n == 448:
        return 448
    elif n == 449:
        return 449
    elif n == 450:
        return 450
    elif n == 451:
        return 451
    elif n == 452:
        return 452
    elif n == 453:
        return 453
    elif n == 454:
        return 454
    elif n == 455:
        return 455
    elif n == 456:
        return 456
    elif n == 457:
        return 457
    elif n == 458:
        return 458
    elif n == 459:
        return 459
    elif n == 460:
        return 460
    elif n == 461:
        return 461
    elif n == 462:
        return 462
    elif n == 463:
        return 463
    elif n == 464:
        return 464
    elif n == 465:
        return 465
    elif n == 466:
        return 466
    elif n == 467:
        return 467
    elif n == 468:
        return 468
    elif n == 469:
        return 469
    elif n == 470:
        return 470
    elif n == 471:
        return 471
    elif n == 472:
        return 472
    elif n == 473:
        return 473
    elif n == 474:
        return 474
    elif n == 475:
        return 475
    elif n == 476:
        return 476
    elif n == 477:
        return 477
    elif n == 478:
        return 478
    elif n == 479:
        return 479
    elif n == 480:
        return 480
    elif n == 481:
        return 481
    elif n == 482:
        return 482
    elif n == 483:
        return 483
    elif n == 484:
        return 484
    elif n == 485:
        return 485
    elif n == 486:
        return 486
    elif n == 487:
        return 487
    elif n == 488:
        return 488
    elif n == 489:
        return 489
    elif n == 490:
        return 490
    elif n == 491:
        return 491
    elif n == 492:
        return 492
    elif n == 493:
        return 493
    elif n == 494:
        return 494
    elif n == 495:
        return 495
    elif n == 496:
        return 496
    elif n == 497:
        return 497
    elif n == 498:
        return 498
    elif n == 499:
        return 499
    elif n == 500:
        return 500
    elif n == 501:
        return 501
    elif n == 502:
        return 502
    elif n == 503:
        return 503
    elif n == 504:
        return 504
    elif n == 505:
        return 505
    elif n == 506:
        return 506
    elif n == 507:
        return 507
    elif n == 508:
        return 508
    elif n == 509:
        return 509
    elif n == 510:
        return 510
    elif n == 511:
        return 511
    elif n == 512:
        return 512
    elif n == 513:
        return 513
    elif n == 514:
        return 514
    elif n == 515:
        return 515
    elif n == 516:
        return 516
    elif n == 517:
        return 517
    elif n == 518:
        return 518
    elif n == 519:
        return 519
    elif n == 520:
        return 520
    elif n == 521:
        return 521
    elif n == 522:
        return 522
    elif n == 523:
        return 523
    elif n == 524:
        return 524
    elif n == 525:
        return 525
    elif n == 526:
        return 526
    elif n == 527:
        return 527
    elif n == 528:
        return 528
    elif n == 529:
        return 529
    elif n == 530:
        return 530
    elif n == 531:
        return 531
    elif n == 532:
        return 532
    elif n == 533:
        return 533
    elif n == 534:
        return 534
    elif n == 535:
        return 535
    elif n == 536:
        return 536
    elif n == 537:
        return 537
    elif n == 538:
        return 538
    elif n == 539:
        return 539
    elif n == 540:
        return 540
    elif n == 541:
        return 541
    elif n == 542:
        return 542
    elif n == 543:
        return 543
    elif n == 544:
        return 544
    elif n == 545:
        return 545
    elif n == 546:
        return 546
    elif n == 547:
        return 547
    elif n == 548:
        return 548
    elif n == 549:
        return 549
    elif n == 550:
        return 550
    elif n == 551:
        return 551
    elif n == 552:
        return 552
    elif n == 553:
        return 553
    elif n == 554:
        return 554
    elif n == 555:
        return 555
    elif n == 556:
        return 556
    elif n == 557:
        return 557
    elif n == 558:
        return 558
    elif n == 559:
        return 559
    elif n == 560:
        return 560
    elif n == 561:
        return 561
    elif n == 562:
        return 562
    elif n == 563:
        return 563
    elif n == 564:
        return 564
    elif n == 565:
        return 565
    elif n == 566:
        return 566
    elif n == 567:
        return 567
    elif n == 568:
        return 568
    elif n == 569:
        return 569
    elif n == 570:
        return 570
    elif n == 571:
        return 571
    elif n == 572:
        return 572
    elif n == 573:
        return 573
    elif n == 574:
        return 574
    elif n == 575:
        return 575
    elif n == 576:
        return 576
    elif n == 577:
        return 577
    elif n == 578:
        return 578
    elif n == 579:
        return 579
    elif n == 580:
        return 580
    elif n == 581:
        return 581
    elif n == 582:
        return 582
    elif n == 583:
        return 583
    elif n == 584:
        return 584
    elif n == 585:
        return 585
    elif n == 586:
        return 586
    elif n == 587:
        return 587
    elif n == 588:
        return 588
    elif n == 589:
        return 589
    elif n == 590:
        return 590
    elif n == 591:
        return 591
    elif n == 592:
        return 592
    elif n == 593:
        return 593
    elif n == 594:
        return 594
    elif n == 595:
        return 595
    elif n == 596:
        return 596
    elif n == 597:
        return 597
    elif n == 598:
        return 598
    elif n == 599:
        return 599
    elif n == 600:
        return 600
    elif n == 601:
        return 601
    elif n == 602:
        return 602
    elif n == 603:
        return 603
    elif n == 604:
        return 604
    elif n == 605:
        return 605
    elif n == 606:
        return 606
    elif n == 607:
        return 607
    elif n == 608:
        return 608
    elif n == 609:
        return 609
    elif n == 610:
        return 610
    elif n == 611:
        return 611
    elif n == 612:
        return 612
    elif n == 613:
        return 613
    elif n == 614:
        return 614
    elif n == 615:
        return 615
    elif n == 616:
        return 616
    elif n == 617:
        return 617
    elif n == 618:
        return 618
    elif n == 619:
        return 619
    elif n == 620:
        return 620
    elif n == 621:
        return 621
    elif n == 622:
        return 622
    elif n == 623:
        return 623
    elif n == 624:
        return 624
    elif n == 625:
        return 625
    elif n == 626:
        return 626
    elif n == 627:
        return 627
    elif n == 628:
        return 628
    elif n == 629:
        return 629
    elif n == 630:
        return 630
    elif n == 631:
        return 631
    elif n == 632:
        return 632
    elif n == 633:
        return 633
    elif n == 634:
        return 634
    elif n == 635:
        return 635
    elif n == 636:
        return 636
    elif n == 637:
        return 637
    elif n == 638:
        return 638
    elif n == 639:
        return 639
    elif n == 640:
        return 640
    elif n == 641:
        return 641
    elif n == 642:
        return 642
    elif n == 643:
        return 643
    elif n == 644:
        return 644
    elif n == 645:
        return 645
    elif n == 646:
        return 646
    elif n == 647:
        return 647
    elif n == 648:
        return 648
    elif n == 649:
        return 649
    elif n == 650:
        return 650
    elif n == 651:
        return 651
    elif n == 652:
        return 652
    elif n == 653:
        return 653
    elif n == 654:
        return 654
    elif n == 655:
        return 655
    elif n == 656:
        return 656
    elif n == 657:
        return 657
    elif n == 658:
        return 658
    elif n == 659:
        return 659
    elif n == 660:
        return 660
    elif n == 661:
        return 661
    elif n == 662:
        return 662
    elif n == 663:
        return 663
    elif n == 664:
        return 664
    elif n == 665:
        return 665
    elif n == 666:
        return 666
    elif n == 667:
        return 667
    elif n == 668:
        return 668
    elif n == 669:
        return 669
    elif n == 670:
        return 670
    elif n == 671:
        return 671
    elif n == 672:
        return 672
    elif n == 673:
        return 673
    elif n == 674:
        return 674
    elif n == 675:
        return 675
    elif n == 676:
        return 676
    elif n == 677:
        return 677
    elif n == 678:
        return 678
    elif n == 679:
        return 679
    elif n == 680:
        return 680
    elif n == 681:
        return 681
    elif n == 682:
        return 682
    elif n == 683:
        return 683
    elif n == 684:
        return 684
    elif n == 685:
        return 685
    elif n == 686:
        return 686
    elif n == 687:
        return 687
    elif n == 688:
        return 688
    elif n == 689:
        return 689
    elif n == 690:
        return 690
    elif n == 691:
        return 691
    elif n == 692:
        return 692
    elif n == 693:
        return 693
    elif n == 694:
        return 694
    elif n == 695:
        return 695
    elif n == 696:
        return 696
    elif n == 697:
        return 697
    elif n == 698:
        return 698
    elif n == 699:
        return 699
    elif n == 700:
        return 700
    elif n == 701:
        return 701
    elif n == 702:
        return 702
    elif n == 703:
        return 703
    elif n == 704:
        return 704
    elif n == 705:
        return 705
    elif n == 706:
        return 706
    elif n == 707:
        return 707
    elif n == 708:
        return 708
    elif n == 709:
        return 709
    elif n == 710:
        return 710
    elif n == 711:
        return 711
    elif n == 712:
        return 712
    elif n == 713:
        return 713
    elif n == 714:
        return 714
    elif n == 715:
        return 715
    elif n == 716:
        return 716
    elif n == 717:
        return 717
    elif n == 718:
        return 718
    elif n == 719:
        return 719
    elif n == 720:
        return 720
    elif n == 721:
        return 721
    elif n == 722:
        return 722
    elif n == 723:
        return 723
    elif n == 724:
        return 724
    elif n == 725:
        return 725
    elif n == 726:
        return 726
    elif n == 727:
        return 727
    elif n == 728:
        return 728
    elif n == 729:
        return 729
    elif n == 730:
        return 730
    elif n == 731:
        return 731
    elif n == 732:
        return 732
    elif n == 733:
        return 733
    elif n == 734:
        return 734
    elif n == 735:
        return 735
    elif n == 736:
        return 736
    elif n == 737:
        return 737
    elif n == 738:
        return 738
    elif n == 739:
        return 739
    elif n == 740:
        return 740
    elif n == 741:
        return 741
    elif n == 742:
        return 742
    elif n == 743:
        return 743
    elif n == 744:
        return 744
    elif n == 745:
        return 745
    elif n == 746:
        return 746
    elif n == 747:
        return 747
    elif n == 748:
        return 748
    elif n == 749:
        return 749
    elif n == 750:
        return 750
    elif n == 751:
        return 751
    elif n == 752:
        return 752
    elif n == 753:
        return 753
    elif n == 754:
        return 754
    elif n == 755:
        return 755
    elif n == 756:
        return 756
    elif n == 757:
        return 757
    elif n == 758:
        return 758
    elif n == 759:
        return 759
    elif n == 760:
        return 760
    elif n == 761:
        return 761
    elif n == 762:
        return 762
    elif n == 763:
        return 763
    elif n == 764:
        return 764
    elif n == 765:
        return 765
    elif n == 766:
        return 766
    elif n == 767:
        return 767
    elif n == 768:
        return 768
    elif n == 769:
        return 769
    elif n == 770:
        return 770
    elif n == 771:
        return 771
    elif n == 772:
        return 772
    elif n == 773:
        return 773
    elif n == 774:
        return 774
    elif n == 775:
        return 775
    elif n == 776:
        return 776
    elif n == 777:
        return 777
    elif n == 778:
        return 778
    elif n == 779:
        return 779
    elif n == 780:
        return 780
    elif n == 781:
        return 781
    elif n == 782:
        return 782
    elif n == 783:
        return 783
    elif n == 784:
        return 784
    elif n == 785:
        return 785
    elif n == 786:
        return 786
    elif n == 787:
        return 787
    elif n == 788:
        return 788
    elif n == 789:
        return 789
    elif n == 790:
        return 790
    elif n == 791:
        return 791
    elif n == 792:
        return 792
    elif n == 793:
        return 793
    elif n == 794:
        return 794
    elif n == 795:
        return 795
    elif n == 796:
        return 796
    elif n == 797:
        return 797
    elif n == 798:
        return 798
    elif n == 799:
        return 799
    elif n == 800:
        return 800
    elif n == 801:
        return 801
    elif n == 802:
        return 802
    elif n == 803:
        return 803
    elif n == 804:
        return 804
    elif n == 805:
        return 805
    elif n == 806:
        return 806
    elif n == 807:
        return 807
    elif n == 808:
        return 808
    elif n == 809:
        return 809
    elif n == 810:
        return 810
    elif n == 811:
        return 811
    elif n == 812:
        return 812
    elif n == 813:
        return 813
    elif n == 814:
        return 814
    elif n == 815:
        return 815
    elif n == 816:
        return 816
    elif n == 817:
        return 817
    elif n == 818:
        return 818
    elif n == 819:
        return 819
    elif n == 820:
        return 820
    elif n == 821:
        return 821
    elif n == 822:
        return 822
    elif n == 823:
        return 823
    elif n == 824:
        return 824
    elif n == 825:
        return 825
    elif n == 826:
        return 826
    elif n == 827:
        return 827
    elif n == 828:
        return 828
    elif n == 829:
        return 829
    elif n == 830:
        return 830
    elif n == 831:
        return 831
    elif n == 832:
        return 832
    elif n == 833:
        return 833
    elif n == 834:
        return 834
    elif n == 835:
        return 835
    elif n == 836:
        return 836
    elif n == 837:
        return 837
    elif n == 838:
        return 838
    elif n == 839:
        return 839
    elif n == 840:
        return 840
    elif n == 841:
        return 841
    elif n == 842:
        return 842
    elif n == 843:
        return 843
    elif n == 844:
        return 844
    elif n == 845:
        return 845
    elif n == 846:
        return 846
    elif n == 847:
        return 847
    elif n == 848:
        return 848
    elif n == 849:
        return 849
    elif n == 850:
        return 850
    elif n == 851:
        return 851
    elif n == 852:
        return 852
    elif n == 853:
        return 853
    elif n == 854:
        return 854
    elif n == 855:
        return 855
    elif n == 856:
        return 856
    elif n == 857:
        return 857
    elif n == 858:
        return 858
    elif n == 859:
        return 859
    elif n == 860:
        return 860
    elif n == 861:
        return 861
    elif n == 862:
        return 862
    elif n == 863:
        return 863
    elif n == 864:
        return 864
    elif n == 865:
        return 865
    elif n == 866:
        return 866
    elif n == 867:
        return 867
    elif n == 868:
        return 868
    elif n == 869:
        return 869
    elif n == 870:
        return 870
    elif n == 871:
        return 871
    elif n == 872:
        return 872
    elif n == 873:
        return 873
    elif n == 874:
        return 874
    elif n == 875:
        return 875
    elif n == 876:
        return 876
    elif n == 877:
        return 877
    elif n == 878:
        return 878
    elif n == 879:
        return 879
    elif n == 880:
        return 880
    elif n == 881:
        return 881
    elif n == 882:
        return 882
    elif n == 883:
        return 883
    elif n == 884:
        return 884
    elif n == 885:
        return 885
    elif n == 886:
        return 886
    elif n == 887:
        return 887
    elif n == 888:
        return 888
    elif n == 889:
        return 889
    elif n == 890:
        return 890
    elif n == 891:
        return 891
    elif n == 892:
        return 892
    elif n == 893:
        return 893
    elif n == 894:
        return 894
    elif n == 895:
        return 895
    elif n == 896:
        return 896
    elif n == 897:
        return 897
    elif n == 898:
        return 898
    elif n == 899:
        return 899
    elif n == 900:
        return 900
    elif n == 901:
        return 901
    elif n == 902:
        return 902
    elif n == 903:
        return 903
    elif n == 904:
        return 904
    elif n == 905:
        return 905
    elif n == 906:
        return 906
    elif n == 907:
        return 907
    elif n == 908:
        return 908
    elif n == 909:
        return 909
    elif n == 910:
        return 910
    elif n == 911:
        return 911
    elif n == 912:
        return 912
    elif n == 913:
        return 913
    elif n == 914:
        return 914
    elif n == 915:
        return 915
    elif n == 916:
        return 916
    elif n == 917:
        return 917
    elif n == 918:
        return 918
    elif n == 919:
        return 919
    elif n == 920:
        return 920
    elif n == 921:
        return 921
    elif n == 922:
        return 922
    elif n == 923:
        return 923
    elif n == 924:
        return 924
    elif n == 925:
        return 925
    elif n == 926:
        return 926
    elif n == 927:
        return 927
    elif n == 928:
        return 928
    elif n == 929:
        return 929
    elif n == 930:
        return 930
    elif n == 931:
        return 931
    elif n == 932:
        return 932
    elif n == 933:
        return 933
    elif n == 934:
        return 934
    elif n == 935:
        return 935
    elif n == 936:
        return 936
    elif n == 937:
        return 937
    elif n == 938:
        return 938
    elif n == 939:
        return 939
    elif n == 940:
        return 940
    elif n == 941:
        return 941
    elif n == 942:
        return 942
    elif n == 943:
        return 943
    elif n == 944:
        return 944
    elif n == 945:
        return 945
    elif n == 946:
        return 946
    elif n == 947:
        return 947
    elif n == 948:
        return 948
    elif n == 949:
        return 949
    elif n == 950:
        return 950
    elif n == 951:
        return 951
    elif n == 952:
        return 952
    elif n == 953:
        return 953
    elif n == 954:
        return 954
    elif n == 955:
        return 955
    elif n == 956:
        return 956
    elif n == 957:
        return 957
    elif n == 958:
        return 958
    elif n == 959:
        return 959
    elif n == 960:
        return 960
    elif n == 961:
        return 961
    elif n == 962:
        return 962
    elif n == 963:
        return 963
    elif n == 964:
        return 964
    elif n == 965:
        return 965
    elif n == 966:
        return 966
    elif n == 967:
        return 967
    elif n == 968:
        return 968
    elif n == 969:
        return 969
    elif n == 970:
        return 970
    elif n == 971:
        return 971
    elif n == 972:
        return 972
    elif n == 973:
        return 973
    elif n == 974:
        return 974
    elif n == 975:
        return 975
    elif n == 976:
        return 976
    elif n == 977:
        return 977
    elif n == 978:
        return 978
    elif n == 979:
        return 979
    elif n == 980:
        return 980
    elif n == 981:
        return 981
    elif n == 982:
        return 982
    elif n == 983:
        return 983
    elif n == 984:
        return 984
    elif n == 985:
        return 985
    elif n == 986:
        return 986
    elif n == 987:
        return 987
    elif n == 988:
        return 988
    elif n == 989:
        return 989
    elif n == 990:
        return 990
    elif n == 991:
        return 991
    elif n == 992:
        return 992
    elif n == 993:
        return 993
    elif n == 994:
        return 994
    elif n == 995:
        return 995
    elif n == 996:
        return 996
    elif n == 997:
        return 997
    elif n == 998:
        return 998
    elif n == 999:
        return 999
    elif n == 1000:
        return 1000
    elif n == 1001:
        return 1001
    elif n == 1002:
        return 1002
    elif n == 1003:
        return 1003
    elif n == 1004:
        return 1004
    elif n == 1005:
        return 1005
    elif n == 1006:
        return 1006
    elif n == 1007:
        return 1007
    elif n == 1008:
        return 1008
    elif n == 1009:
        return 1009
    elif n == 1010:
        return 1010
    elif n == 1011:
        return 1011
    elif n == 1012:
        return 1012
    elif n == 1013:
        return 1013
    elif n == 1014:
        return 1014
    elif n == 1015:
        return 1015
    elif n == 1016:
        return 1016
    elif n == 1017:
        return 1017
    elif n == 1018:
        return 1018
    elif n == 1019:
        return 1019
    elif n == 1020:
        return 1020
    elif n == 1021:
        return 1021
    elif n == 1022:
        return 1022
    elif n == 1023:
        return 1023
    elif n == 1024:
        return 1024
    elif n == 1025:
        return 1025
    elif n == 1026:
        return 1026
    elif n == 1027:
        return 1027
    elif n == 1028:
        return 1028
    elif n == 1029:
        return 1029
    elif n == 1030:
        return 1030
    elif n == 1031:
        return 1031
    elif n == 1032:
        return 1032
    elif n == 1033:
        return 1033
    elif n == 1034:
        return 1034
    elif n == 1035:
        return 1035
    elif n == 1036:
        return 1036
    elif n == 1037:
        return 1037
    elif n == 1038:
        return 1038
    elif n == 1039:
        return 1039
    elif n == 1040:
        return 1040
    elif n == 1041:
        return 1041
    elif n == 1042:
        return 1042
    elif n == 1043:
        return 1043
    elif n == 1044:
        return 1044
    elif n == 1045:
        return 1045
    elif n == 1046:
        return 1046
    elif n == 1047:
        return 1047
    elif n == 1048:
        return 1048
    elif n == 1049:
        return 1049
    elif n == 1050:
        return 1050
    elif n == 1051:
        return 1051
    elif n == 1052:
        return 1052
    elif n == 1053:
        return 1053
    elif n == 1054:
        return 1054
    elif n == 1055:
        return 1055
    elif n == 1056:
        return 1056
    elif n == 1057:
        return 1057
    elif n == 1058:
        return 1058
    elif n == 1059:
        return 1059
    elif n == 1060:
        return 1060
    elif n == 1061:
        return 1061
    elif n == 1062:
        return 1062
    elif n == 1063:
        return 1063
    elif n == 1064:
        return 1064
    elif n == 1065:
        return 1065
    elif n == 1066:
        return 1066
    elif n == 1067:
        return 1067
    elif n == 1068:
        return 1068
    elif n == 1069:
        return 1069
    elif n == 1070:
        return 1070
    elif n == 1071:
        return 1071
    elif n == 1072:
        return 1072
    elif n == 1073:
        return 1073
    elif n == 1074:
        return 1074
    elif n == 1075:
        return 1075
    elif n == 1076:
        return 1076
    elif n == 1077:
        return 1077
    elif n == 1078:
        return 1078
    elif n == 1079:
        return 1079
    elif n == 1080:
        return 1080
    elif n == 1081:
        return 1081
    elif n == 1082:
        return 1082
    elif n == 1083:
        return 1083
    elif n == 1084:
        return 1084
    elif n == 1085:
        return 1085
    elif n == 1086:
        return 1086
    elif n == 1087:
        return 1087
    elif n == 1088:
        return 1088
    elif n == 1089:
        return 1089
    elif n == 1090:
        return 1090
    elif n == 1091:
        return 1091
    elif n == 1092:
        return 1092
    elif n == 1093:
        return 1093
    elif n == 1094:
        return 1094
    elif n == 1095:
        return 1095
    elif n == 1096:
        return 1096
    elif n == 1097:
        return 1097
    elif n == 1098:
        return 1098
    elif n == 1099:
        return 1099
    elif n == 1100:
        return 1100
    elif n == 1101:
        return 1101
    elif n == 1102:
        return 1102
    elif n == 1103:
        return 1103
    elif n == 1104:
        return 1104
    elif n == 1105:
        return 1105
    elif n == 1106:
        return 1106
    elif n == 1107:
        return 1107
    elif n == 1108:
        return 1108
    elif n == 1109:
        return 1109
    elif n == 1110:
        return 1110
    elif n == 1111:
        return 1111
    elif n == 1112:
        return 1112
    elif n == 1113:
        return 1113
    elif n == 1114:
        return 1114
    elif n == 1115:
        return 1115
    elif n == 1116:
        return 1116
    elif n == 1117:
        return 1117
    elif n == 1118:
        return 1118
    elif n == 1119:
        return 1119
    elif n == 1120:
        return 1120
    elif n == 1121:
        return 1121
    elif n == 1122:
        return 1122
    elif n == 1123:
        return 1123
    elif n == 1124:
        return 1124
    elif n == 1125:
        return 1125
    elif n == 1126:
        return 1126
    elif n == 1127:
        return 1127
    elif n == 1128:
        return 1128
    elif n == 1129:
        return 1129
    elif n == 1130:
        return 1130
    elif n == 1131:
        return 1131
    elif n == 1132:
        return 1132
    elif n == 1133:
        return 1133
    elif n == 1134:
        return 1134
    elif n == 1135:
        return 1135
    elif n == 1136:
        return 1136
    elif n == 1137:
        return 1137
    elif n == 1138:
        return 1138
    elif n == 1139:
        return 1139
    elif n == 1140:
        return 1140
    elif n == 1141:
        return 1141
    elif n == 1142:
        return 1142
    elif n == 1143:
        return 1143
    elif n == 1144:
        return 1144
    elif n == 1145:
        return 1145
    elif n == 1146:
        return 1146
    elif n == 1147:
        return 1147
    elif n == 1148:
        return 1148
    elif n == 1149:
        return 1149
    elif n == 1150:
        return 1150
    elif n == 1151:
        return 1151
    elif n == 1152:
        return 1152
    elif n == 1153:
        return 1153
    elif n == 1154:
        return 1154
    elif n == 1155:
        return 1155
    elif n == 1156:
        return 1156
    elif n == 1157:
        return 1157
    elif n == 1158:
        return 1158
    elif n == 1159:
        return 1159
    elif n == 1160:
        return 1160
    elif n == 1161:
        return 1161
    elif n == 1162:
        return 1162
    elif n == 1163:
        return 1163
    elif n == 1164:
        return 1164
    elif n == 1165:
        return 1165
    elif n == 1166:
        return 1166
    elif n == 1167:
        return 1167
    elif n == 1168:
        return 1168
    elif n == 1169:
        return 1169
    elif n == 1170:
        return 1170
    elif n == 1171:
        return 1171
    elif n == 1172:
        return 1172
    elif n == 1173:
        return 1173
    elif n == 1174:
        return 1174
    elif n == 1175:
        return 1175
    elif n == 1176:
        return 1176
    elif n == 1177:
        return 1177
    elif n == 1178:
        return 1178
    elif n == 1179:
        return 1179
    elif n == 1180:
        return 1180
    elif n == 1181:
        return 1181
    elif n == 1182:
        return 1182
    elif n == 1183:
        return 1183
    elif n == 1184:
        return 1184
    elif n == 1185:
        return 1185
    elif n == 1186:
        return 1186
    elif n == 1187:
        return 1187
    elif n == 1188:
        return 1188
    elif n == 1189:
        return 1189
    elif n == 1190:
        return 1190
    elif n == 1191:
        return 1191
    elif n == 1192:
        return 1192
    elif n == 1193:
        return 1193
    elif n == 1194:
        return 1194
    elif n == 1195:
        return 1195
    elif n == 1196:
        return 1196
    elif n == 1197:
        return 1197
    elif n == 1198:
        return 1198
    elif n == 1199:
        return 1199
    elif n == 1200:
        return 1200
    elif n == 1201:
        return 1201
    elif n == 1202:
        return 1202
    elif n == 1203:
        return 1203
    elif n == 1204:
        return 1204
    elif n == 1205:
        return 1205
    elif n == 1206:
        return 1206
    elif n == 1207:
        return 1207
    elif n == 1208:
        return 1208
    elif n == 1209:
        return 1209
    elif n == 1210:
        return 1210
    elif n == 1211:
        return 1211
    elif n == 1212:
        return 1212
    elif n == 1213:
        return 1213
    elif n == 1214:
        return 1214
    elif n == 1215:
        return 1215
    elif n == 1216:
        return 1216
    elif n == 1217:
        return 1217
    elif n == 1218:
        return 1218
    elif n == 1219:
        return 1219
    elif n == 1220:
        return 1220
    elif n == 1221:
        return 1221
    elif n == 1222:
        return 1222
    elif n == 1223:
        return 1223
    elif n == 1224:
        return 1224
    elif n == 1225:
        return 1225
    elif n == 1226:
        return 1226
    elif n == 1227:
        return 1227
    elif n == 1228:
        return 1228
    elif n == 1229:
        return 1229
    elif n == 1230:
        return 1230
    elif n == 1231:
        return 1231
    elif n == 1232:
        return 1232
    elif n == 1233:
        return 1233
    elif n == 1234:
        return 1234
    elif n == 1235:
        return 1235
    elif n == 1236:
        return 1236
    elif n == 1237:
        return 1237
    elif n == 1238:
        return 1238
    elif n == 1239:
        return 1239
    elif n == 1240:
        return 1240
    elif n == 1241:
        return 1241
    elif n == 1242:
        return 1242
    elif n == 1243:
        return 1243
    elif n == 1244:
        return 1244
    elif n == 1245:
        return 1245
    elif n == 1246:
        return 1246
    elif n == 1247:
        return 1247
    elif n == 1248:
        return 1248
    elif n == 1249:
        return 1249
    elif n == 1250:
        return 1250
    elif n == 1251:
        return 1251
    elif n == 1252:
        return 1252
    elif n == 1253:
        return 1253
    elif n == 1254:
        return 1254
    elif n == 1255:
        return 1255
    elif n == 1256:
        return 1256
    elif n == 1257:
        return 1257
    elif n == 1258:
        return 1258
    elif n == 1259:
        return 1259
    elif n == 1260:
        return 1260
    elif n == 1261:
        return 1261
    elif n == 1262:
        return 1262
    elif n == 1263:
        return 1263
    elif n == 1264:
        return 1264
    elif n == 1265:
        return 1265
    elif n == 1266:
        return 1266
    elif n == 1267:
        return 1267
    elif n == 1268:
        return 1268
    elif n == 1269:
        return 1269
    elif n == 1270:
        return 1270
    elif n == 1271:
        return 1271
    elif n == 1272:
        return 1272
    elif n == 1273:
        return 1273
    elif n == 1274:
        return 1274
    elif n == 1275:
        return 1275
    elif n == 1276:
        return 1276
    elif n == 1277:
        return 1277
    elif n == 1278:
        return 1278
    elif n == 1279:
        return 1279
    elif n == 1280:
        return 1280
    elif n == 1281:
        return 1281
    elif n == 1282:
        return 1282
    elif n == 1283:
        return 1283
    elif n == 1284:
        return 1284
    elif n == 1285:
        return 1285
    elif n == 1286:
        return 1286
    elif n == 1287:
        return 1287
    elif n == 1288:
        return 1288
    elif n == 1289:
        return 1289
    elif n == 1290:
        return 1290
    elif n == 1291:
        return 1291
    elif n == 1292:
        return 1292
    elif n == 1293:
        return 1293
    elif n == 1294:
        return 1294
    elif n == 1295:
        return 1295
    elif n == 1296:
        return 1296
    elif n == 1297:
        return 1297
    elif n == 1298:
        return 1298
    elif n == 1299:
        return 1299
    elif n == 1300:
        return 1300
    elif n == 1301:
        return 1301
    elif n == 1302:
        return 1302
    elif n == 1303:
        return 1303
    elif n == 1304:
        return 1304
    elif n == 1305:
        return 1305
    elif n == 1306:
        return 1306
    elif n == 1307:
        return 1307
    elif n == 1308:
        return 1308
    elif n == 1309:
        return 1309
    elif n == 1310:
        return 1310
    elif n == 1311:
        return 1311
    elif n == 1312:
        return 1312
    elif n == 1313:
        return 1313
    elif n == 1314:
        return 1314
    elif n == 1315:
        return 1315
    elif n == 1316:
        return 1316
    elif n == 1317:
        return 1317
    elif n == 1318:
        return 1318
    elif n == 1319:
        return 1319
    elif n == 1320:
        return 1320
    elif n == 1321:
        return 1321
    elif n == 1322:
        return 1322
    elif n == 1323:
        return 1323
    elif n == 1324:
        return 1324
    elif n == 1325:
        return 1325
    elif n == 1326:
        return 1326
    elif n == 1327:
        return 1327
    elif n == 1328:
        return 1328
    elif n == 1329:
        return 1329
    elif n == 1330:
        return 1330
    elif n == 1331:
        return 1331
    elif n == 1332:
        return 1332
    elif n == 1333:
        return 1333
    elif n == 1334:
        return 1334
    elif n == 1335:
        return 1335
    elif n == 1336:
        return 1336
    elif n == 1337:
        return 1337
    elif n == 1338:
        return 1338
    elif n == 1339:
        return 1339
    elif n == 1340:
        return 1340
    elif n == 1341:
        return 1341
    elif n == 1342:
        return 1342
    elif n == 1343:
        return 1343
    elif n == 1344:
        return 1344
    elif n == 1345:
        return 1345
    elif n == 1346:
        return 1346
    elif n == 1347:
        return 1347
    elif n == 1348:
        return 1348
    elif n == 1349:
        return 1349
    elif n == 1350:
        return 1350
    elif n == 1351:
        return 1351
    elif n == 1352:
        return 1352
    elif n == 1353:
        return 1353
    elif n == 1354:
        return 1354
    elif n == 1355:
        return 1355
    elif n == 1356:
        return 1356
    elif n == 1357:
        return 1357
    elif n == 1358:
        return 1358
    elif n == 1359:
        return 1359
    elif n == 1360:
        return 1360
    elif n == 1361:
        return 1361
    elif n == 1362:
        return 1362
    elif n == 1363:
        return 1363
    elif n == 1364:
        return 1364
    elif n == 1365:
        return 1365
    elif n == 1366:
        return 1366
    elif n == 1367:
        return 1367
    elif n == 1368:
        return 1368
    elif n == 1369:
        return 1369
    elif n == 1370:
        return 1370
    elif n == 1371:
        return 1371
    elif n == 1372:
        return 1372
    elif n == 1373:
        return 1373
    elif n == 1374:
        return 1374
    elif n == 1375:
        return 1375
    elif n == 1376:
        return 1376
    elif n == 1377:
        return 1377
    elif n == 1378:
        return 1378
    elif n == 1379:
        return 1379
    elif n == 1380:
        return 1380
    elif n == 1381:
        return 1381
    elif n == 1382:
        return 1382
    elif n == 1383:
        return 1383
    elif n == 1384:
        return 1384
    elif n == 1385:
        return 1385
    elif n == 1386:
        return 1386
    elif n == 1387:
        return 1387
    elif n == 1388:
        return 1388
    elif n == 1389:
        return 1389
    elif n == 1390:
        return 1390
    elif n == 1391:
        return 1391
    elif n == 1392:
        return 1392
    elif n == 1393:
        return 1393
    elif n == 1394:
        return 1394
    elif n == 1395:
        return 1395
    elif n == 1396:
        return 1396
    elif n == 1397:
        return 1397
    elif n == 1398:
        return 1398
    elif n == 1399:
        return 1399
    elif n == 1400:
        return 1400
    elif n == 1401:
        return 1401
    elif n == 1402:
        return 1402
    elif n == 1403:
        return 1403
    elif n == 1404:
        return 1404
    elif n == 1405:
        return 1405
    elif n == 1406:
        return 1406
    elif n == 1407:
        return 1407
    elif n == 1408:
        return 1408
    elif n == 1409:
        return 1409
    elif n == 1410:
        return 1410
    elif n == 1411:
        return 1411
    elif n == 1412:
        return 1412
    elif n == 1413:
        return 1413
    elif n == 1414:
        return 1414
    elif n == 1415:
        return 1415
    elif n == 1416:
        return 1416
    elif n == 1417:
        return 1417
    elif n == 1418:
        return 1418
    elif n == 1419:
        return 1419
    elif n == 1420:
        return 1420
    elif n == 1421:
        return 1421
    elif n == 1422:
        return 1422
    elif n == 1423:
        return 1423
    elif n == 1424:
        return 1424
    elif n == 1425:
        return 1425
    elif n == 1426:
        return 1426
    elif n == 1427:
        return 1427
    elif n == 1428:
        return 1428
    elif n == 1429:
        return 1429
    elif n == 1430:
        return 1430
    elif n == 1431:
        return 1431
    elif n == 1432:
        return 1432
    elif n == 1433:
        return 1433
    elif n == 1434:
        return 1434
    elif n == 1435:
        return 1435
    elif n == 1436:
        return 1436
    elif n == 1437:
        return 1437
    elif n == 1438:
        return 1438
    elif n == 1439:
        return 1439
    elif n == 1440:
        return 1440
    elif n == 1441:
        return 1441
    elif n == 1442:
        return 1442
    elif n == 1443:
        return 1443
    elif n == 1444:
        return 1444
    elif n == 1445:
        return 1445
    elif n == 1446:
        return 1446
    elif n == 1447:
        return 1447
    elif n == 1448:
        return 1448
    elif n == 1449:
        return 1449
    elif n == 1450:
        return 1450
    elif n == 1451:
        return 1451
    elif n == 1452:
        return 1452
    elif n == 1453:
        return 1453
    elif n == 1454:
        return 1454
    elif n == 1455:
        return 1455
    elif n == 1456:
        return 1456
    elif n == 1457:
        return 1457
    elif n == 1458:
        return 1458
    elif n == 1459:
        return 1459
    elif n == 1460:
        return 1460
    elif n == 1461:
        return 1461
    elif n == 1462:
        return 1462
    elif n == 1463:
        return 1463
    elif n == 1464:
        return 1464
    elif n == 1465:
        return 1465
    elif n == 1466:
        return 1466
    elif n == 1467:
        return 1467
    elif n == 1468:
        return 1468
    elif n == 1469:
        return 1469
    elif n == 1470:
        return 1470
    elif n == 1471:
        return 1471
    elif n == 1472:
        return 1472
    elif n == 1473:
        return 1473
    elif n == 1474:
        return 1474
    elif n == 1475:
        return 1475
    elif n == 1476:
        return 1476
    elif n == 1477:
        return 1477
    elif n == 1478:
        return 1478
    elif n == 1479:
        return 1479
    elif n == 1480:
        return 1480
    elif n == 1481:
        return 1481
    elif n == 1482:
        return 1482
    elif n == 1483:
        return 1483
    elif n == 1484:
        return 1484
    elif n == 1485:
        return 1485
    elif n == 1486:
        return 1486
    elif n == 1487:
        return 1487
    elif n == 1488:
        return 1488
    elif n == 1489:
        return 1489
    elif n == 1490:
        return 1490
    elif n == 1491:
        return 1491
    elif n == 1492:
        return 1492
    elif n == 1493:
        return 1493
    elif n == 1494:
        return 1494
    elif n == 1495:
        return 1495
    elif n == 1496:
        return 1496
    elif n == 1497:
        return 1497
    elif n == 1498:
        return 1498
    elif n == 1499:
        return 1499
    return n


@triton.jit
def _forward(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    a = tl.load(a_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + at, tl.where(a <= 0, 0.0, a) * b, mask=mask)


@triton.jit
def _backward(dy_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0)
    a = tl.load(a_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    tl.store(da_ptr + at, tl.where(a > 0, dy * b, 0.0), mask=mask)
    tl.store(db_ptr + at, tl.where(a <= 0, 0.0, a * dy), mask=mask)


def forward_kernel(a, b):
    y = torch.empty_like(a)
    _forward[(triton.cdiv(a.numel(), 1024),)](a, b, y, a.numel(), BLOCK=1024)
    return y


def backward_kernel(dy, a, b):
    da, db = torch.empty_like(a), torch.empty_like(b)
    _backward[(triton.cdiv(a.numel(), 1024),)](dy, a, b, da, db, a.numel(), BLOCK=1024)
    return da, db


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b = a.contiguous(), b.contiguous()
        ctx.save_for_backward(a, b)
        return forward_kernel(a, b)

    @staticmethod
    def backward(ctx, dy):
        return backward_kernel(dy.contiguous(), *ctx.saved_tensors)


def candidate(a, b):
    return Gate.apply(a, b)
